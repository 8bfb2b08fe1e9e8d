"""The kernel's own invariants: children, swapping, and cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator, ToolResult
from contract.doubles import Approvals, Display, Listener, deny, raising
from contract.installer import Installer, Loop, ScriptedProvider, mounting
from contract.requirements import requirement


@requirement("LAW-8")
async def test_a_fork_is_a_child_with_the_merged_plan(installed: Installer) -> None:
    plan = installed.basics(session={"metadata": {"a": 1}}, agents={"x": {}})
    parent = AmplifierSession(plan, session_id="parent")
    await parent.initialize()

    child = parent.fork({"session": {"metadata": {"b": 2}}}, session_id="mine")
    anonymous = parent.fork()

    assert (child.session_id, child.parent_id) == ("mine", "parent")
    assert anonymous.session_id not in ("parent", "mine")
    assert child.config["session"]["metadata"] == {"a": 1, "b": 2}
    assert child.config["agents"] == {"x": {}}
    assert plan["session"]["metadata"] == {"a": 1}
    async with child:
        assert await child.execute("task") == "answer to task"


@requirement("LAW-9")
async def test_a_child_cannot_get_around_its_parents_guards(installed: Installer) -> None:
    parent = AmplifierSession(installed.basics())
    guard, observer = Listener(deny("family rule")), Listener()
    parent.coordinator.hooks.register("tool:pre", guard, 10, "guard", on_error="deny")
    parent.coordinator.hooks.register("tool:pre", observer, name="observer")
    child = parent.fork()
    hooks = child.coordinator.hooks

    hooks.register("tool:pre", Listener(), -10)
    hooks.unregister("guard")
    result = await hooks.emit("tool:pre", {})

    assert (result.action, result.reason) == ("deny", "family rule")
    assert guard.data["session_id"] == child.session_id
    assert observer.calls == []
    hooks.register("tool:post", Listener(deny("stricter")), on_error="deny")
    assert (await hooks.emit("tool:post", {})).action == "deny"
    assert (await parent.coordinator.hooks.emit("tool:post", {})).action == "continue"


@requirement("LAW-9")
async def test_a_grandchild_is_guarded_too(installed: Installer) -> None:
    parent = AmplifierSession(installed.basics())
    parent.coordinator.hooks.register("tool:pre", Listener(deny("rule")), on_error="deny")

    grandchild = parent.fork().fork()

    assert (await grandchild.coordinator.hooks.emit("tool:pre", {})).action == "deny"


@requirement("LAW-10")
async def test_a_child_inherits_only_the_interposers_marked_for_it(installed: Installer) -> None:
    parent = AmplifierSession(installed.basics())
    parent.coordinator.interpose(
        "tools", lambda name, module: ("budget", module), name="budget", inherit=True
    )
    parent.coordinator.interpose("tools", lambda name, module: ("spy", module), name="spy")
    child = parent.fork()

    await child.coordinator.mount("tools", "tool", name="t")

    assert child.coordinator.get("tools", "t") == ("budget", "tool")
    assert child.fork().coordinator.get("tools") == {}


@requirement("LAW-11")
async def test_a_child_inherits_who_is_asked_and_shown_and_where_modules_are(
    installed: Installer,
) -> None:
    approvals, display, resolver = Approvals(), Display(), object()
    parent = AmplifierSession(installed.basics(), approval_system=approvals, display_system=display)
    await parent.coordinator.mount("module-source-resolver", resolver)

    child = parent.fork().coordinator

    assert child.approval_system is approvals
    assert child.display_system is display
    assert child.get("module-source-resolver") is resolver


@requirement("LAW-12")
def test_cancelling_goes_from_parent_to_child_and_not_back(installed: Installer) -> None:
    parent = AmplifierSession(installed.basics())
    child = parent.fork()
    grandchild = child.fork()

    child.coordinator.cancellation.request_graceful()
    assert not parent.coordinator.cancellation.is_cancelled
    assert grandchild.coordinator.cancellation.is_graceful

    parent.coordinator.cancellation.request_immediate()
    assert child.coordinator.cancellation.is_immediate
    assert grandchild.coordinator.cancellation.is_immediate
    assert parent.fork().coordinator.cancellation.is_immediate


async def _ask_provider(**handed: Any) -> str:
    """Act as a loop that asks the first provider once."""
    provider = next(iter(handed["providers"].values()))
    answer = await provider.complete(None)
    return answer.content[0].text


async def _swappable(installed: Installer) -> tuple[AmplifierSession, Listener]:
    installed.provider.answers = ["old"]
    installed.loop.act = _ask_provider
    session = AmplifierSession(installed.basics())
    heard = Listener()
    for event in ("module:swapped", "module:rolled_back", "module:load_failed"):
        session.coordinator.hooks.register(event, heard)
    await session.initialize()
    return session, heard


@requirement("LAW-19")
async def test_a_swapped_provider_takes_over_at_the_next_turn(installed: Installer) -> None:
    session, heard = await _swappable(installed)
    installed.object("provider-new", "providers", ScriptedProvider("new"), "test")
    during: list[str] = []

    async def act(**handed: Any) -> str:
        await session.swap("providers", {"module": "provider-new"})
        during.append(await _ask_provider(**handed))
        return "turn"

    installed.loop.act = act
    await session.execute("swap in the middle of a turn")
    installed.loop.act = _ask_provider

    assert during == ["old"]
    assert await session.execute("next turn") == "new"
    assert await session.execute("and after") == "new"
    assert heard.events == ["module:swapped"]
    assert heard.data["module_id"] == "provider-new"


@requirement("LAW-20")
async def test_a_swap_to_a_module_that_does_not_load_changes_nothing(installed: Installer) -> None:
    session, heard = await _swappable(installed)
    installed.add("provider-broken", raising(RuntimeError("no key")))
    installed.object("provider-nonsense", "providers", object(), "test")

    for module_id in ("provider-broken", "provider-nonsense", "provider-absent"):
        with pytest.raises(Exception, match=r"no key|provider-"):
            await session.swap("providers", {"module": module_id})
        assert heard.data["module_id"] == module_id
        assert await session.execute("hi") == "old"

    assert heard.events == ["module:load_failed"] * 3
    assert session.coordinator.get("providers") == {"test": installed.provider}


@requirement("LAW-21")
async def test_a_swapped_provider_that_fails_its_first_turn_is_rolled_back(
    installed: Installer,
) -> None:
    session, heard = await _swappable(installed)
    cleaned: list[str] = []
    bad = ScriptedProvider(RuntimeError("out of service"))
    installed.add(
        "provider-bad",
        mounting("providers", bad, "test", returns=lambda: cleaned.append("bad")),
    )

    await session.swap("providers", {"module": "provider-bad"})
    with pytest.raises(RuntimeError, match="out of service"):
        await session.execute("first turn")

    assert heard.events == ["module:swapped", "module:rolled_back"]
    assert await session.execute("second turn") == "old"
    assert session.coordinator.get("providers", "test") is installed.provider
    assert cleaned == ["bad"]


@requirement("LAW-19", "LAW-21")
async def test_a_loop_can_be_swapped_and_rolled_back_too(installed: Installer) -> None:
    session, heard = await _swappable(installed)
    installed.object("loop-good", "orchestrator", Loop())
    installed.object("loop-bad", "orchestrator", Loop(raising(RuntimeError("bad loop"))))

    await session.swap("orchestrator", {"module": "loop-good"})
    assert await session.execute("one") == "answer to one"
    await session.swap("orchestrator", {"module": "loop-bad"})
    with pytest.raises(RuntimeError, match="bad loop"):
        await session.execute("two")

    assert await session.execute("three") == "answer to three"
    assert heard.events == ["module:swapped", "module:swapped", "module:rolled_back"]


@requirement("LAW-22", "SESS-41")
@pytest.mark.parametrize("hanging", ["provider", "tool"])
async def test_an_immediate_cancellation_ends_a_call_that_hangs(
    installed: Installer, hanging: str
) -> None:
    started = asyncio.Event()
    interrupted: list[str] = []

    async def hang(*_: Any) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interrupted.append(hanging)
            raise

    class HangingTool:
        name = "hang"
        description = "Hangs."

        async def execute(self, input: dict[str, Any]) -> ToolResult:
            return await hang()

    async def act(tools: dict[str, Any], providers: dict[str, Any], **_: Any) -> str:
        await (tools["hang"].execute({}) if hanging == "tool" else providers["test"].complete(None))
        return "never"

    plan = installed.basics(tools=[{"module": "tool-hang"}])
    installed.object("tool-hang", "tools", HangingTool())
    installed.provider.answers = [hang]
    installed.loop.act = act
    session = AmplifierSession(plan)
    await session.initialize()

    async with asyncio.timeout(120):
        turn = asyncio.create_task(session.execute("hi"))
        await started.wait()
        await session.coordinator.request_cancel(immediate=True)
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert interrupted == [hanging]
    assert session.status.status == "cancelled"
    session.coordinator.cancellation.reset()
    installed.loop.act = None
    assert await session.execute("again") == "answer to again"


@requirement("LAW-23")
@pytest.mark.parametrize("immediate", [True, False])
async def test_a_cancelled_turn_leaves_no_call_without_a_result(
    installed: Installer, immediate: bool
) -> None:
    session = AmplifierSession(installed.basics())
    call: dict[str, Any] = {"id": "call_1", "tool": "bash", "arguments": {}}

    async def act(context: Any, coordinator: ModuleCoordinator, **_: Any) -> str:
        await context.add_message({"role": "user", "content": "hi"})
        await context.add_message({"role": "assistant", "content": "", "tool_calls": [call]})
        await coordinator.request_cancel(immediate=immediate)
        await asyncio.sleep(0)
        return "stopped"

    installed.loop.act = act
    await session.initialize()
    async with asyncio.timeout(120):
        await asyncio.gather(session.execute("hi"), return_exceptions=True)

    last = installed.memory.messages[-1]
    assert (last["role"], last["tool_call_id"]) == ("tool", "call_1")
