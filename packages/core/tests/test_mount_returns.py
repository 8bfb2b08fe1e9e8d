"""Tests of what a mount may return, and of what the objects that it mounts must have."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ModuleLoadError, SessionError
from contract.doubles import Listener
from contract.installer import Installer
from contract.requirements import requirement


class _CallableObject:
    """A cleanup that is an object."""

    def __init__(self, cleaned: list[str]) -> None:
        self._cleaned = cleaned

    async def __call__(self) -> None:
        self._cleaned.append("object")


@requirement("LIFE-4")
@pytest.mark.parametrize("section", ["tools", "hooks"])
@pytest.mark.parametrize("form", ["partial", "builtin", "object"])
async def test_whatever_can_be_called_without_arguments_is_a_cleanup(
    installed: Installer, section: str, form: str
) -> None:
    cleaned: list[str] = []
    returned = {
        "partial": partial(cleaned.append, "partial"),
        "builtin": iter(lambda: cleaned.append("builtin"), 1).__next__,
        "object": _CallableObject(cleaned),
    }
    plan = installed.basics(**{section: [{"module": "x-cleaned"}]})

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        return returned[form]

    installed.add("x-cleaned", mount)
    async with AmplifierSession(plan):
        assert cleaned == []

    assert cleaned == [form]


async def test_a_handler_that_a_hook_module_returns_is_not_taken_for_a_cleanup(
    installed: Installer, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    plan = installed.basics(hooks=[{"module": "hooks-returned"}])

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        coordinator.hooks.register("session:end", listener)
        return listener

    installed.add("hooks-returned", mount)
    async with AmplifierSession(plan):
        pass

    assert listener.events == ["session:end"]
    assert "Error during cleanup" not in caplog.text


class _NoTool:
    name = "half"
    description = "Has no execute."


@requirement("LOAD-34")
async def test_what_does_not_fulfil_its_protocol_is_not_mounted(installed: Installer) -> None:
    listener = Listener()
    plan = installed.basics(tools=[{"module": "tool-half"}], hooks=[{"module": "hooks-listen"}])
    installed.object("tool-half", "tools", _NoTool())

    async def listen(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        coordinator.hooks.register("module:load_failed", listener)

    installed.add("hooks-listen", listen)
    session = AmplifierSession(plan)
    await session.initialize()

    (failed,) = (each for each in session.status.modules if each.state == "failed")
    assert failed.module_id == "tool-half"
    assert "not a tool: it has no execute" in str(failed.error)
    assert session.coordinator.get("tools") == {}
    assert listener.data["reason_code"] == "validation_failed"


@requirement("LOAD-34")
@pytest.mark.parametrize("section", ["orchestrator", "context"])
async def test_a_session_does_not_start_on_a_loop_or_memory_that_is_none(
    installed: Installer, section: str
) -> None:
    plan = installed.basics(session={section: "x-none"})
    installed.object("x-none", section, object())
    session = AmplifierSession(plan)

    with pytest.raises(SessionError, match="mounted an object that is not") as raised:
        await session.initialize()

    assert isinstance(raised.value.__cause__, ModuleLoadError)
    assert session.coordinator.get(section) is None


class _Unreadable:
    """A callable that refuses to show its signature, as some built-in ones and mocks do."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1

    @property
    def __signature__(self) -> None:
        raise self._error


@pytest.mark.parametrize("error", [ValueError("no signature found"), TypeError("a Mock")])
async def test_a_callable_whose_signature_cannot_be_read_is_taken_for_a_cleanup(
    installed: Installer, error: Exception
) -> None:
    unreadable = _Unreadable(error)
    plan = installed.basics(hooks=[{"module": "hooks-unreadable"}])

    async def mount(coordinator: ModuleCoordinator, config: dict[str, Any]) -> Any:
        return unreadable

    installed.add("hooks-unreadable", mount)
    async with AmplifierSession(plan):
        pass

    assert unreadable.calls == 1
