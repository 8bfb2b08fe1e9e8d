"""Tests of what is said about a module's code before it is mounted."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from amplifier_core._discovery import (
    check_package,
    check_transport,
    mount_fault,
    ready_fault,
    usable_ready,
)
from amplifier_core.errors import ModuleLoadError, ModuleValidationError
from contract.requirements import requirement


async def good(coordinator: Any, config: Any) -> None: ...


async def of_one(coordinator: Any) -> None: ...


async def of_any(*arguments: Any) -> None: ...


async def of_none() -> None: ...


async def by_keyword(*, coordinator: Any) -> None: ...


async def with_default(coordinator: Any = None) -> None: ...


def plain(coordinator: Any, config: Any) -> None: ...


def module(**attributes: Any) -> ModuleType:
    made = ModuleType("amplifier_module_made")
    made.__dict__.update(attributes)
    return made


@requirement("LOAD-16")
@pytest.mark.parametrize(
    ("mount", "fault"),
    [
        (good, None),
        (None, "mount_exists"),
        ("text", "mount_exists"),
        (of_one, "mount_signature"),
        (plain, "mount_signature"),
    ],
)
def test_a_mount_is_async_and_takes_coordinator_and_config(mount: Any, fault: str | None) -> None:
    found = mount_fault(mount)

    assert (found and found[0]) == fault


@pytest.mark.parametrize(
    ("ready", "fault"),
    [
        (None, None),
        (of_one, None),
        (of_any, None),
        (of_none, "must accept a coordinator"),
        (by_keyword, "must accept a coordinator"),
        (with_default, "must accept a coordinator"),
        (plain, "must be async"),
    ],
)
def test_a_ready_function_is_async_and_takes_the_coordinator(ready: Any, fault: str | None) -> None:
    found = ready_fault(SimpleNamespace(on_session_ready=ready))

    assert found is None if fault is None else fault in str(found)


def test_a_faulty_ready_function_is_skipped_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert usable_ready("tool-x", module(on_session_ready=of_one)) is of_one
    assert usable_ready("tool-x", module()) is None
    assert caplog.records == []

    assert usable_ready("tool-x", module(on_session_ready=of_none)) is None
    assert "module=tool-x" in caplog.text


@requirement("LOAD-16", "LOAD-18")
def test_a_package_that_is_no_module_is_refused_by_name() -> None:
    check_package("tool-x", module(__amplifier_module_type__="tool"), good)

    with pytest.raises(ModuleValidationError, match="'tool-x' has unknown type 'ship'"):
        check_package("tool-x", module(__amplifier_module_type__="ship"), good)
    with pytest.raises(ModuleValidationError, match="'tool-x'.*mount_exists"):
        check_package("tool-x", module(), None)


@requirement("LOAD-30")
@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        (None, None),
        ("", None),
        ('[module]\nname = "x"', None),
        ('[module]\ntransport = "python"', None),
        ('[module]\ntransport = "wasm"', "transport 'wasm'"),
        ("not = = toml", "is not valid TOML"),
    ],
)
def test_only_python_is_spoken_here(
    tmp_path: Path, manifest: str | None, complaint: str | None
) -> None:
    if manifest is not None:
        (tmp_path / "amplifier.toml").write_text(manifest, encoding="utf-8")

    if complaint is None:
        assert check_transport("tool-x", tmp_path) is None
    else:
        with pytest.raises(ModuleLoadError, match=complaint) as caught:
            check_transport("tool-x", tmp_path)
        assert caught.value.reason_code == "invalid_module_metadata"


def test_a_manifest_that_is_not_utf_8_is_refused_with_the_id_of_its_module(tmp_path: Path) -> None:
    (tmp_path / "amplifier.toml").write_bytes(b"# \xe9")

    with pytest.raises(ModuleLoadError, match="Module 'tool-x'.*is not valid TOML"):
        check_transport("tool-x", tmp_path)


def test_a_refusal_carries_the_id_and_the_reason_code() -> None:
    with pytest.raises(ModuleValidationError, match="Valid types: .*'context'.*'tool'") as unknown:
        check_package("tool-x", module(__amplifier_module_type__="ship"), good)
    with pytest.raises(ModuleValidationError, match="No mount") as without:
        check_package("tool-x", module(), None)

    assert (unknown.value.module_id, unknown.value.reason_code) == (
        "tool-x",
        "invalid_module_metadata",
    )
    assert (without.value.module_id, without.value.reason_code) == ("tool-x", "validation_failed")


@pytest.mark.parametrize("manifest", ['[module]\ntransport = "wasm"', "not = = toml"])
def test_a_manifest_is_refused_with_the_id_of_its_module(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "amplifier.toml").write_text(manifest, encoding="utf-8")

    with pytest.raises(ModuleLoadError, match="Module 'tool-x'") as caught:
        check_transport("tool-x", tmp_path)

    assert (caught.value.module_id, caught.value.reason_code) == (
        "tool-x",
        "invalid_module_metadata",
    )


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (None, "No mount() function found"),
        (of_one, "2 parameters: coordinator and config"),
        (plain, "must be async"),
    ],
)
def test_what_is_wrong_with_a_mount_is_said_in_words(mount: Any, words: str) -> None:
    fault = mount_fault(mount)

    assert fault is not None
    assert words in fault[1]
