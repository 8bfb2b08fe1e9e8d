"""One demonstration for each thing the kernel promises beyond the public contracts.

Cancellation has its own file, `test_demonstrations_cancel.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookResult, ModuleCoordinator, ToolResult
from contract.doubles import Approvals, Display, Listener, Memory, deny, raising
from contract.installer import Installer, ScriptedProvider, mounting
from contract.requirements import requirement
from contract.turns import calls, loop


class Note:
    """A tool that takes notes."""

    name = "note"
    description = "Takes a note."

    def __init__(self) -> None:
        self.taken: list[Any] = []

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.taken.append(input)
        return ToolResult(output="noted")


async def session_with_a_tool(installed: Installer, *answers: Any) -> tuple[AmplifierSession, Note]:
    """Give a session of our loop in which the model calls a tool first, or says `answers`."""
    tool = Note()
    plan = installed.basics(tools=[{"module": "tool-note"}])
    installed.provider.answers = [*(answers or (calls("note"), "Done."))]
    installed.object("loop-test", "orchestrator", await loop())
    installed.object("tool-note", "tools", tool)
    session = AmplifierSession(plan)
    await session.initialize()
    return session, tool


# --- 1. hook merge ----------------------------------------------------------------------------


@requirement("LAW-2")
async def test_a_raising_guard_denies_and_the_tool_never_runs(installed: Installer) -> None:
    session, tool = await session_with_a_tool(installed)
    hooks = session.coordinator.hooks
    hooks.register("tool:pre", raising(OSError("policy server down")), name="g", on_error="deny")

    assert await session.execute("take a note") == "Done."

    assert tool.taken == []
    assert "policy server down" in installed.memory.messages[2]["content"]


@requirement("LAW-3")
async def test_a_hanging_guard_denies_after_its_timeout(installed: Installer) -> None:
    session, tool = await session_with_a_tool(installed)

    async def hang(event: str, data: dict[str, Any]) -> HookResult:
        await asyncio.Event().wait()
        return HookResult()

    hooks = session.coordinator.hooks
    hooks.register("tool:pre", hang, name="slow", timeout=0.01, on_error="deny")

    async with asyncio.timeout(120):
        assert await session.execute("take a note") == "Done."

    assert tool.taken == []
    assert "Guard `slow` failed" in installed.memory.messages[2]["content"]


@requirement("LAW-6")
async def test_an_edit_reaches_the_tool_although_another_hook_asks_the_user(
    installed: Installer,
) -> None:
    session, tool = await session_with_a_tool(installed)
    approvals = Approvals("Allow")
    session.coordinator.approval_system = approvals

    def edit(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"safe": True}})

    def question(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="ask_user", approval_prompt=f"Run with {data['tool_input']}?")

    session.coordinator.hooks.register("tool:pre", edit, 1)
    session.coordinator.hooks.register("tool:pre", question, 2)

    await session.execute("take a note")

    assert approvals.asked[0][0] == "Run with {'safe': True}?"
    assert tool.taken == [{"safe": True}]


@requirement("LAW-9")
async def test_a_child_obeys_its_parents_guards_even_those_that_come_later(
    installed: Installer,
) -> None:
    parent, tool = await session_with_a_tool(installed, calls("note"), "Done.", calls("note"), "2.")
    child = parent.fork()
    await child.initialize()
    await child.execute("before the guard")
    assert len(tool.taken) == 1

    guard = Listener(deny("team rule"))
    remove = parent.coordinator.hooks.register("tool:pre", guard, name="guard", on_error="deny")
    child.coordinator.hooks.unregister("guard")
    await child.execute("behind the guard")

    assert len(tool.taken) == 1
    assert installed.memory.messages[-2]["content"] == "Denied by hook: team rule"
    assert guard.data["session_id"] == child.session_id
    remove()
    assert child.coordinator.hooks.list_guards() == {}


@requirement("LAW-10", "LAW-11", "LAW-12")
async def test_a_child_inherits_everything_that_holds_for_the_whole_family(
    installed: Installer,
) -> None:
    approvals, display, resolver = Approvals(), Display(), object()
    parent = AmplifierSession(installed.basics(), approval_system=approvals, display_system=display)
    await parent.coordinator.mount("module-source-resolver", resolver)
    parent.coordinator.interpose("tools", lambda _, tool: ("budget", tool), name="b", inherit=True)
    parent.coordinator.interpose("tools", lambda _, tool: ("trace", tool), name="t")

    child = parent.fork({"session": {"metadata": {"task": "research"}}}, session_id="child")
    await child.coordinator.mount("tools", "tool", name="t")
    parent.coordinator.cancellation.request_graceful()

    assert (child.session_id, child.parent_id) == ("child", parent.session_id)
    assert child.coordinator.approval_system is approvals
    assert child.coordinator.display_system is display
    assert child.coordinator.get("module-source-resolver") is resolver
    assert child.coordinator.get("tools", "t") == ("budget", "tool")
    assert child.coordinator.cancellation.is_graceful


# --- 2. interposition -----------------------------------------------------------------------


class Counting:
    """Stands before a tool and counts its calls."""

    description = "Counted."

    def __init__(self, name: str, inner: Any) -> None:
        self.name, self.inner, self.count = name, inner, 0

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.count += 1
        return await self.inner.execute(input)


@requirement("LAW-14")
@pytest.mark.parametrize("reads", ["get", "get one", "mapping", "our loop"])
async def test_an_interposed_tool_is_seen_by_every_loop(installed: Installer, reads: str) -> None:
    session, tool = await session_with_a_tool(installed)
    counting: list[Counting] = []

    def wrap(name: str, module: Any) -> Counting:
        counting.append(Counting(name, module))
        return counting[-1]

    async def foreign(coordinator: ModuleCoordinator, tools: dict[str, Any], **_: Any) -> str:
        found: dict[str, Callable[[], Any]] = {
            "get": lambda: coordinator.get("tools")["note"],
            "get one": lambda: coordinator.get("tools", "note"),
            "mapping": lambda: tools["note"],
        }
        await found[reads]().execute({"n": 1})
        return "Done."

    session.coordinator.interpose("tools", wrap, name="count")
    if reads != "our loop":
        installed.loop.act = foreign
        await session.coordinator.mount("orchestrator", installed.loop)

    assert await session.execute("take a note") == "Done."

    assert [each.count for each in counting] == [1]
    assert tool.taken == [{"n": 1}]
    assert session.coordinator.mount_points["tools"]["note"] is tool


# --- 3. nothing fails silently --------------------------------------------------------------


@requirement("LAW-16", "LAW-17")
async def test_a_failed_module_is_in_the_status_and_announced_to_hooks_mounted_after_it(
    installed: Installer,
) -> None:
    heard = Listener()

    async def observe(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        coordinator.hooks.register("module:load_failed", heard)

    plan = installed.basics(tools=[{"module": "tool-bad"}], hooks=[{"module": "hooks-late"}])
    installed.add("tool-bad", raising(OSError("no disk")))
    installed.add("hooks-late", observe)

    async with AmplifierSession(plan) as session:
        assert await session.execute("hi") == "answer to hi"

    told = {key: heard.data[key] for key in ("module_id", "module_type", "error", "required")}
    assert told == {
        "module_id": "tool-bad",
        "module_type": "tool",
        "error": "no disk",
        "required": False,
    }
    failed = {each.module_id: each.error for each in session.status.modules if each.error}
    assert failed == {"tool-bad": "OSError: no disk"}


@requirement("LAW-18")
async def test_a_required_module_that_fails_is_fatal(installed: Installer) -> None:
    plan = installed.basics(tools=[{"module": "tool-bad", "required": True}])
    installed.add("tool-bad", raising(OSError("no disk")))
    session = AmplifierSession(plan)

    with pytest.raises(RuntimeError, match="tool-bad.*no disk") as caught:
        await session.initialize()

    assert isinstance(caught.value.__cause__, OSError)
    assert session.initialized is False


# --- 4. two-phase swap ----------------------------------------------------------------------


@requirement("LAW-19", "LAW-21")
async def test_a_swap_to_a_broken_provider_rolls_back_and_the_session_goes_on(
    installed: Installer,
) -> None:
    session, _ = await session_with_a_tool(installed, "old")
    heard = Listener()
    for event in ("module:swapped", "module:rolled_back"):
        session.coordinator.hooks.register(event, heard)
    broken = ScriptedProvider(RuntimeError("no quota"))
    installed.object("provider-new", "providers", broken, "test")

    await session.swap("providers", {"module": "provider-new"})
    with pytest.raises(RuntimeError, match="no quota"):
        await session.execute("first turn of the new one")

    assert heard.events == ["module:swapped", "module:rolled_back"]
    assert await session.execute("go on") == "old"
    assert session.coordinator.get("providers") == {"test": installed.provider}
    assert "provider-new" not in [each.module_id for each in session.status.modules]


@requirement("LAW-19")
async def test_a_swap_during_a_turn_waits_for_its_end(installed: Installer) -> None:
    session, _ = await session_with_a_tool(installed, calls("note"), "Old to the end.")
    new = ScriptedProvider("New.")
    installed.object("provider-new", "providers", new, "test")

    async def swap(event: str, data: dict[str, Any]) -> None:
        await session.swap("providers", {"module": "provider-new"})

    remove = session.coordinator.hooks.register("tool:pre", swap)

    assert await session.execute("swap in the middle") == "Old to the end."
    remove()
    assert new.requests == []
    assert await session.execute("next") == "New."


@requirement("LAW-19")
async def test_a_swapped_context_carries_the_history_and_the_old_one_is_cleaned_up(
    installed: Installer,
) -> None:
    session, _ = await session_with_a_tool(installed, "One.", "Two.")
    new, cleaned = Memory(), list[str]()
    mount = mounting("context", new, returns=lambda: cleaned.append("new"))
    installed.add("context-new", mount)
    await session.execute("first")

    await session.swap("context", {"module": "context-new"})
    assert await session.execute("second") == "Two."
    await session.swap("context", {"module": "context-test"})

    said = [each["content"] for each in installed.memory.messages if each["role"] == "user"]
    assert said == ["first", "second"]
    assert cleaned == []
    await session.execute("third")
    assert cleaned == ["new"]
