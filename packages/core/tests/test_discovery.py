"""Tests of where modules are looked for: entry points, packages, directories, the import path."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from amplifier_core._discovery import (
    TYPE_TO_MOUNT_POINT,
    declared_type,
    find_mount,
    find_package_dir,
    forget_installed_modules,
    guess_type,
    import_by_name,
    import_package,
    installed_modules,
    modules_below,
    package_dir_of,
    search,
    stop_searching,
)
from amplifier_core.errors import ModuleLoadError
from amplifier_core.loader import ModuleLoader
from contract.installer import write_module

MOUNT = "async def mount(coordinator, config): ...\n"


def entry_point(name: str, value: str = "nowhere_at_all:mount") -> EntryPoint:
    return EntryPoint(name, value, "amplifier.modules")


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder on the import path whose packages are forgotten after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("module_id", "kind"),
    [
        ("tool-context-loop", "tool"),
        ("hook-one", "hook"),
        ("resolver-git", "resolver"),
        ("my-tool", "tool"),
        ("a-context-of-mine", "context"),
        ("my-hooks", "hook"),
        ("the-provider", "provider"),
    ],
)
def test_the_first_word_of_an_id_tells_more_than_the_others(module_id: str, kind: str) -> None:
    assert guess_type(module_id) == kind


def test_an_id_without_a_telling_word_suggests_nothing() -> None:
    assert guess_type("my-module") is None
    assert guess_type("my-orchestrator") == "orchestrator"


def test_a_type_that_does_not_exist_is_not_believed(tmp_path: Path) -> None:
    write_module(tmp_path, "odd", '__amplifier_module_type__ = "spaceship"')

    assert declared_type(tmp_path / "amplifier_module_odd") is None
    assert declared_type(None) is None


async def test_a_package_that_is_not_utf_8_does_not_stop_discovery(tmp_path: Path) -> None:
    home = tmp_path / "amplifier-module-tool-latin"
    write_module(home, "tool-latin", "")
    code = "# coding: latin-1\n# é\n__amplifier_module_type__ = 'hook'\n"
    package = home / "amplifier_module_tool_latin"
    (package / "__init__.py").write_text(code, encoding="latin-1")

    found = {info.id: info.type for info in await ModuleLoader(search_paths=[tmp_path]).discover()}

    assert found["tool-latin"] == "hook"


@pytest.mark.parametrize("value", ["nowhere_at_all:mount", "json.decoder:mount", "json:", ".odd:m"])
def test_an_entry_point_without_a_module_package_has_no_directory(value: str) -> None:
    directory = package_dir_of(entry_point("odd", value))

    assert directory is None or (directory / "__init__.py").is_file()


def test_the_directory_of_an_entry_point_is_found_without_importing_it(importable: Path) -> None:
    write_module(importable, "found", "raise RuntimeError('imported')")

    found = package_dir_of(entry_point("found", "amplifier_module_found.deep:mount"))

    assert found == importable / "amplifier_module_found"
    assert "amplifier_module_found" not in sys.modules


def test_a_namespace_without_code_of_its_own_is_no_module_directory(importable: Path) -> None:
    (importable / "only_a_folder").mkdir()

    assert package_dir_of(entry_point("odd", "only_a_folder:mount")) is None


def test_of_two_entry_points_with_one_id_the_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [entry_point("twin", "first:mount"), entry_point("twin", "second:mount")]

    def installed(**_: Any) -> list[EntryPoint]:
        return points

    monkeypatch.setattr(importlib.metadata, "entry_points", installed)

    assert installed_modules()["twin"].value == "first:mount"


def test_the_metadata_is_read_again_when_the_import_path_changes_or_on_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[str] = []

    def installed(*, group: str) -> list[EntryPoint]:
        reads.append(group)
        return []

    monkeypatch.setattr(importlib.metadata, "entry_points", installed)
    monkeypatch.setattr(sys, "path", list(sys.path))

    installed_modules()
    installed_modules()
    assert len(reads) == 1
    sys.path.append("/somewhere/new")
    installed_modules()
    assert len(reads) == 2
    forget_installed_modules()
    installed_modules()
    assert reads == ["amplifier.modules"] * 3
    sys.path.append("/somewhere/newer")
    installed_modules()
    sys.path.remove("/somewhere/newer")
    installed_modules()
    assert len(reads) == 5


def test_a_package_lies_at_the_path_below_it_or_below_its_sources(tmp_path: Path) -> None:
    at = write_module(tmp_path / "at", "x", MOUNT, package=".")
    below = write_module(tmp_path / "below", "x", MOUNT)
    sources = tmp_path / "sources"
    write_module(sources / "src", "x", MOUNT)
    other = tmp_path / "other"
    write_module(other / "src", "another", MOUNT)
    (other / "amplifier_module_empty").mkdir()

    assert find_package_dir("x", at) == at
    assert find_package_dir("x", below) == below / "amplifier_module_x"
    assert find_package_dir("x", sources) == sources / "src" / "amplifier_module_x"
    assert find_package_dir("x", other) == other / "src" / "amplifier_module_another"
    assert find_package_dir("x", tmp_path / "missing") is None
    assert find_package_dir("x", other / "amplifier_module_empty") is None


def test_a_package_may_be_named_like_its_module(tmp_path: Path) -> None:
    flat = write_module(tmp_path / "flat", "my-tool", MOUNT, package="my_tool")
    sources = tmp_path / "sources"
    write_module(sources / "src", "my-tool", MOUNT, package="my_tool")
    both = write_module(tmp_path / "both", "my-tool", MOUNT, package="my_tool")
    write_module(both, "other", MOUNT)

    assert find_package_dir("my-tool", flat) == flat / "my_tool"
    assert find_package_dir("my-tool", sources) == sources / "src" / "my_tool"
    assert find_package_dir("my-tool", both) == both / "amplifier_module_other"
    assert find_package_dir("another", flat) is None


def test_an_entry_point_names_the_part_of_a_package_that_mounts_it(importable: Path) -> None:
    write_module(importable, "parts", MOUNT)
    package = importable / "amplifier_module_parts"
    (package / "deep.py").write_text("async def mount_it(a, b): ...\n", encoding="utf-8")
    (package / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    module = import_package(package)

    assert find_mount(module, None) == (module, module.mount)
    assert find_mount(module, "amplifier_module_parts:mount") == (module, module.mount)
    assert find_mount(module, "amplifier_module_parts:other") == (module, None)
    deep, mount = find_mount(module, "amplifier_module_parts.deep:mount_it")
    assert deep is sys.modules["amplifier_module_parts.deep"]
    assert mount is deep.mount_it
    with pytest.raises(ModuleLoadError, match=r"amplifier_module_parts\.broken.*ZeroDivisionError"):
        find_mount(module, "amplifier_module_parts.broken:mount")


def test_an_installed_package_is_imported_by_its_name(importable: Path) -> None:
    write_module(importable, "by-name", MOUNT)

    package = import_by_name("amplifier_module_by_name")

    assert package is sys.modules["amplifier_module_by_name"]
    assert import_by_name("amplifier_module_by_name") is package


@pytest.mark.parametrize(
    "name", ["amplifier_module_absent", "no_such_parent.child", "amplifier_module_."]
)
def test_a_name_nobody_has_is_no_package(name: str) -> None:
    assert import_by_name(name) is None


def test_an_installed_package_that_does_not_import_says_why(importable: Path) -> None:
    write_module(importable, "broken", "import no_such_library")

    with pytest.raises(ModuleLoadError, match="no_such_library"):
        import_by_name("amplifier_module_broken")


def test_a_directory_is_imported_once(importable: Path, tmp_path: Path) -> None:
    home = write_module(tmp_path / "a", "once", MOUNT) / "amplifier_module_once"

    assert import_package(home) is import_package(home)


def test_a_second_package_of_the_same_name_is_refused(importable: Path, tmp_path: Path) -> None:
    first = write_module(tmp_path / "a", "same", MOUNT) / "amplifier_module_same"
    second = write_module(tmp_path / "b", "same", MOUNT) / "amplifier_module_same"
    loaded = import_package(first)

    with pytest.raises(ModuleLoadError, match="already loaded from"):
        import_package(second)

    del loaded.__file__
    with pytest.raises(ModuleLoadError, match="already loaded from None"):
        import_package(first)


@pytest.mark.parametrize(
    ("source", "error"),
    [("1 / 0", ModuleLoadError), ("raise KeyboardInterrupt", KeyboardInterrupt)],
)
def test_a_directory_that_fails_to_import_leaves_nothing_behind(
    importable: Path, tmp_path: Path, source: str, error: type[BaseException]
) -> None:
    home = write_module(tmp_path / "a", "failing", source) / "amplifier_module_failing"

    with pytest.raises(error):
        import_package(home)

    assert "amplifier_module_failing" not in sys.modules


@pytest.fixture
def search_path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The import path, for this test only."""
    path = list(sys.path)
    monkeypatch.setattr(sys, "path", path)
    return path


def test_a_directory_stays_on_the_path_while_somebody_needs_it(search_path: list[str]) -> None:
    search("/shared")
    search("/shared")
    assert search_path[-1] == "/shared"
    assert search_path.count("/shared") == 1
    stop_searching("/shared")
    assert "/shared" in search_path
    stop_searching("/shared")

    assert "/shared" not in search_path


def test_a_directory_that_others_put_on_the_path_is_theirs(search_path: list[str]) -> None:
    search_path.append("/theirs")
    search("/theirs")
    stop_searching("/theirs")

    assert "/theirs" in search_path


def test_a_directory_that_others_took_off_the_path_is_not_missed(search_path: list[str]) -> None:
    search("/mine")
    search_path.remove("/mine")

    stop_searching("/mine")

    assert "/mine" not in search_path


PREFIXES = {
    "orchestrator": "orchestrator",
    "loop": "orchestrator",
    "provider": "provider",
    "tool": "tool",
    "hooks": "hook",
    "hook": "hook",
    "context": "context",
    "resolver": "resolver",
}


@pytest.mark.parametrize("first", PREFIXES)
@pytest.mark.parametrize("second", ["orchestrator", "loop", "provider", "tool", "hook", "context"])
def test_the_first_word_decides_whatever_follows(first: str, second: str) -> None:
    assert guess_type(f"{first}-{second}") == PREFIXES[first]
    assert guess_type(f"{first}-{second}-more") == PREFIXES[first]


@pytest.mark.parametrize(
    ("module_id", "kind"),
    [
        ("my-orchestrator", "orchestrator"),
        ("orchestration", "orchestrator"),
        ("agentloop", "orchestrator"),
        ("myprovider", "provider"),
        ("toolbox", "tool"),
        ("webhook", "hook"),
        ("contextual", "context"),
        ("loop_of_providers", "orchestrator"),
        ("provider_of_tools", "provider"),
        ("tools_of_hooks", "tool"),
        ("hooks_of_context", "hook"),
        ("my-resolver", "resolver"),
    ],
)
def test_without_a_known_first_word_any_word_in_the_id_decides(module_id: str, kind: str) -> None:
    assert guess_type(module_id) == kind


def test_a_package_from_a_directory_imports_its_own_parts(importable: Path, tmp_path: Path) -> None:
    source = "from . import part\nfrom amplifier_module_parts.part import VALUE\n"
    home = write_module(tmp_path / "a", "parts", source) / "amplifier_module_parts"
    (home / "part.py").write_text("VALUE = 42\n", encoding="utf-8")

    package = import_package(home)

    assert package.VALUE == 42
    assert package.__path__ == [str(home)]


@pytest.mark.parametrize("by_name", [False, True])
def test_a_package_that_does_not_import_is_named_with_its_error(
    importable: Path, tmp_path: Path, by_name: bool
) -> None:
    home = write_module(tmp_path, "failing", "1 / 0") / "amplifier_module_failing"

    attempt = partial(import_by_name, home.name) if by_name else partial(import_package, home)

    with pytest.raises(ModuleLoadError) as caught:
        attempt()

    assert "amplifier_module_failing" in str(caught.value)
    assert "ZeroDivisionError: division by zero" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_refusal_names_both_places(importable: Path, tmp_path: Path) -> None:
    first = write_module(tmp_path / "a", "both", MOUNT) / "amplifier_module_both"
    second = write_module(tmp_path / "b", "both", MOUNT) / "amplifier_module_both"
    import_package(first)

    with pytest.raises(ModuleLoadError) as caught:
        import_package(second)

    assert f"`amplifier_module_both` from {second}" in str(caught.value)
    assert str(first) in str(caught.value)


def test_the_package_of_the_module_counts_more_than_another_one_beside_it(tmp_path: Path) -> None:
    write_module(tmp_path, "another", MOUNT)
    write_module(tmp_path / "src", "x", MOUNT)

    assert find_package_dir("x", tmp_path) == tmp_path / "src" / "amplifier_module_x"
    assert find_package_dir("y", tmp_path) == tmp_path / "amplifier_module_another"


def test_an_entry_point_may_name_a_package_alone(importable: Path) -> None:
    write_module(importable, "alone", MOUNT)

    found = package_dir_of(entry_point("alone", "amplifier_module_alone"))

    assert found == importable / "amplifier_module_alone"


def test_every_type_of_module_has_its_mount_point() -> None:
    assert TYPE_TO_MOUNT_POINT == {
        "orchestrator": "orchestrator",
        "provider": "providers",
        "tool": "tools",
        "hook": "hooks",
        "context": "context",
        "resolver": "module-source-resolver",
    }


def test_a_search_path_that_is_missing_is_logged_and_the_next_one_looked_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_module(tmp_path / "amplifier-module-tool-here", "tool-here", MOUNT)
    missing = tmp_path / "missing"

    found = dict(modules_below([missing, str(tmp_path)]))

    assert list(found) == ["tool-here"]
    assert str(missing) in caplog.text
