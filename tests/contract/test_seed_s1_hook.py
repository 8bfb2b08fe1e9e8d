"""The code blocks of the hook contract, run as written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest

from amplifier_core import AmplifierSession, HookResult, ModuleCoordinator, interfaces
from amplifier_core.testing import EventRecorder, MockContextManager, MockCoordinator
from contract.doubles import Approvals, Display, Listener, deny
from contract.requirements import requirement
from contract.seed_runs import (
    PLAN,
    compare_protocol,
    entry_points_of,
    events_of,
    module_names,
    run_tests_of,
    session_from_block,
    values_of,
)
from contract.seeds import run_block

SEEDED = Callable[[str], Path]


@requirement("SONE-693")
async def test_our_handler_protocol_is_the_shown_one() -> None:
    given: dict[str, Any] = {"runtime_checkable": runtime_checkable, "Protocol": Protocol}
    names = await run_block("S1:693", {**given, "Any": Any, "HookResult": HookResult})
    shown = names["HookHandler"]

    compare_protocol(shown, interfaces.HookHandler)

    handler = module_names("hook")["my_validation_hook"]
    for each in (handler, Listener()):
        assert isinstance(each, shown)
        assert isinstance(each, interfaces.HookHandler)


@requirement("SONE-724")
async def test_the_shown_answers_are_valid_and_carried_out() -> None:
    observed, denied, injected, asked = await values_of("S1:724")
    context = MockContextManager()
    display = Display()
    approvals = Approvals("Deny")
    session: Any = MockCoordinator().session
    coordinator = ModuleCoordinator(
        session=session, approval_system=approvals, display_system=display
    )
    await coordinator.mount("context", context)

    async def carried_out(result: HookResult) -> HookResult:
        return await coordinator.process_hook_result(result, "tool:pre", "my-hook")

    assert (await carried_out(observed)).action == "continue"
    assert (await carried_out(denied)).reason == "Access denied"
    await carried_out(injected)
    assert context.messages[0]["content"] == "Found 3 linting errors..."
    assert display.shown[0][0] == "Linting issues detected"
    assert (await carried_out(asked)).action == "deny"
    assert approvals.asked[0][0] == "Allow write to production file?"
    assert (asked.approval_default, asked.approval_timeout) == ("deny", 300.0)


async def hook_mount(**handlers: Any) -> Any:
    """Return the shown mount function, with handlers of the test."""
    given: dict[str, Any] = {"ModuleCoordinator": ModuleCoordinator, "Callable": Callable}
    return (await run_block("S1:754", {**given, **handlers}))["mount"]


@requirement("SONE-754")
async def test_the_shown_mount_registers_and_its_cleanup_unregisters() -> None:
    guard = Listener(deny("no"))
    feedback = Listener(HookResult())
    mount = await hook_mount(my_validation_hook=guard, my_feedback_hook=feedback)
    coordinator = MockCoordinator()
    earlier = Listener(HookResult())
    coordinator.hooks.register("tool:pre", earlier, priority=5)
    later = Listener(HookResult())
    coordinator.hooks.register("tool:pre", later, priority=15)

    cleanup = await mount(coordinator, {})
    answer = await coordinator.hooks.emit("tool:pre", {"tool_name": "Write"})
    await coordinator.hooks.emit("tool:post", {"tool_name": "Write"})

    assert (answer.action, answer.reason) == ("deny", "no")
    assert (len(earlier.calls), len(guard.calls), len(later.calls)) == (1, 1, 0)
    assert feedback.events == ["tool:post"]
    cleanup()
    await coordinator.hooks.emit("tool:pre", {})
    await coordinator.hooks.emit("tool:post", {})
    assert (len(guard.calls), len(feedback.calls)) == (1, 1)


@requirement("SONE-754", "SONE-782")
async def test_the_entry_point_of_the_hook_leads_a_session_to_it(installed_seed: SEEDED) -> None:
    installed_seed("hook")
    installed_seed("tool")
    plan = {**PLAN, "tools": [{"module": "my-tool"}], "hooks": [{"module": "my-hook"}]}

    async with AmplifierSession(plan) as session:
        answer = await session.execute("use my_tool on /etc/passwd")
        hooks = session.coordinator.hooks
        assert len(hooks.list_handlers("tool:pre")["tool:pre"]) == 1

    assert entry_points_of("S1:782") == {"my-hook": "my_hook:mount"}
    assert answer.endswith("Denied by hook: Access denied")
    assert not hooks.list_handlers("tool:pre").get("tool:pre")


@requirement("SONE-793")
async def test_a_handler_is_registered_and_unregistered_as_shown() -> None:
    coordinator = MockCoordinator()
    handler = Listener(HookResult())

    names = await run_block("S1:793", {"coordinator": coordinator, "my_handler": handler})
    await coordinator.hooks.emit("tool:post", {})
    assert coordinator.hooks.list_handlers("tool:post") == {"tool:post": ["my_handler"]}
    names["unregister"]()
    await coordinator.hooks.emit("tool:post", {})

    assert names["registry"] is coordinator.hooks
    assert handler.events == ["tool:post"]


@requirement("SONE-831")
async def test_the_shown_configuration_is_a_section_of_a_plan(installed_seed: SEEDED) -> None:
    folder = installed_seed("hook")
    code = folder / "my_hook" / "__init__.py"
    keep = "\n    coordinator.register_capability('config', config)\n    handlers = []\n"
    text = code.read_text(encoding="utf-8").replace("\n    handlers = []\n", keep)
    code.write_text(text, encoding="utf-8")

    async with await session_from_block("S1:831", folder) as session:
        config = session.coordinator.get_capability("config")

    assert config == {"enabled_events": ["tool:pre", "tool:post"], "log_level": "info"}


@requirement("SONE-850")
async def test_the_shown_events_of_a_hook_are_collected() -> None:
    assert await events_of("S1:850") == ["my-hook:validation_failed", "my-hook:approved"]


@requirement("SONE-901")
async def test_the_shown_tests_of_a_hook_pass() -> None:
    names: dict[str, Any] = {"pytest": pytest, **module_names("hook")}

    ran = await run_tests_of("S1:901", names)

    assert ran == ["test_hook_handler", "test_hook_registration"]


@requirement("SONE-929")
async def test_the_shown_recorder_keeps_events() -> None:
    names = await run_block("S1:929")

    assert isinstance(names["recorder"], EventRecorder)
    assert names["events"] == [("tool:pre", {"tool_name": "Write"})]
