"""The blocks of the document Module Source Protocol on errors, run as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ModuleLoader
from amplifier_core.loader import ModuleValidationError
from amplifier_core.module_sources import (
    ModuleLoadError,
    ModuleNotFoundError,  # noqa: A004 - the name is fixed by the source contract
    ModuleSource,
)
from contract.installer import Installer, write_module
from contract.requirements import requirement
from contract.seeds import run_block
from contract.seeds.sessions import failures


class _Resolver:
    """A resolver that finds everything in one folder, or raises what it was given."""

    def __init__(self, found: Path | Exception) -> None:
        self.found = found

    def resolve(self, module_id: str, profile_hint: Any = None) -> ModuleSource:
        """Be its own source."""
        if isinstance(self.found, Exception):
            raise self.found
        return _Folder(self.found)


class _Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def resolve(self) -> Path:
        return self.path


async def _loader_with(resolver: Any) -> ModuleLoader:
    coordinator = ModuleCoordinator()
    await coordinator.mount("module-source-resolver", resolver)
    return ModuleLoader(coordinator)


@requirement("SFOUR-176")
async def test_a_module_that_nobody_finds_is_named_with_what_was_tried(
    installed: Installer,
) -> None:
    shown = (await run_block("S4:176"))["ModuleNotFoundError"]
    assert issubclass(ModuleNotFoundError, shown.__bases__)

    with pytest.raises(ModuleNotFoundError) as raised:
        await ModuleLoader().load("tool-nowhere")

    message = str(raised.value)
    assert "tool-nowhere" in message
    assert "entry points" in message
    assert "Install" in message


@requirement("SFOUR-176")
async def test_what_a_resolver_raises_is_propagated(installed: Installer) -> None:
    error = ModuleNotFoundError("tool-nowhere is not in the workspace")

    with pytest.raises(ModuleNotFoundError) as raised:
        await (await _loader_with(_Resolver(error))).load("tool-nowhere")

    assert raised.value is error


_BROKEN = {
    "not valid Python": "async def mount(coordinator, config:\n",
    "a missing dependency": "import surely_not_installed\n",
    "no mount": "def other(coordinator, config): ...\n",
    "a mount that is not async": "def mount(coordinator, config): ...\n",
    "a mount that takes nothing": "async def mount(): ...\n",
}


@requirement("SFOUR-190")
@pytest.mark.parametrize("fault", _BROKEN)
async def test_a_module_that_is_found_and_cannot_be_loaded_is_a_load_error(
    installed: Installer, tmp_path: Path, fault: str
) -> None:
    shown = (await run_block("S4:190"))["ModuleLoadError"]
    assert issubclass(ModuleLoadError, shown.__bases__)
    loader = await _loader_with(_Resolver(tmp_path))
    write_module(tmp_path, "tool-broken", _BROKEN[fault])

    with pytest.raises(ModuleLoadError) as raised:
        await loader.load("tool-broken")

    loader.cleanup()
    assert "tool-broken" in str(raised.value).replace("_", "-")
    if "mount" in fault:
        assert isinstance(raised.value, ModuleValidationError)


@requirement("SFOUR-190")
@pytest.mark.parametrize(
    ("module_id", "point"), [("tool-odd", "tools"), ("provider-odd", "providers")]
)
async def test_what_is_mounted_and_does_not_fulfil_its_protocol_is_refused(
    installed: Installer, module_id: str, point: str
) -> None:
    odd = type("Odd", (), {"name": "odd", "description": "Does nothing."})()
    installed.object(module_id, point, odd)
    plan = installed.basics()
    plan.setdefault(point, []).append({"module": module_id})

    async with AmplifierSession(plan) as session:
        (failure,) = failures(session)
        assert "odd" in failure
        assert "odd" not in session.coordinator.get(point)
        assert await session.execute("hi") == "answer to hi"


@requirement("SFOUR-190")
@pytest.mark.parametrize(
    ("module_id", "point"), [("loop-test", "orchestrator"), ("context-test", "context")]
)
async def test_a_loop_or_a_context_that_does_not_fulfil_its_protocol_stops_the_session(
    installed: Installer, module_id: str, point: str
) -> None:
    plan = installed.basics()
    odd = type("Odd", (), {"name": "odd"})()
    installed.object(module_id, point, odd)

    with pytest.raises(RuntimeError, match="Cannot initialize without"):
        await AmplifierSession(plan).initialize()
