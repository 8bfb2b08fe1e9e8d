"""The kernel's own invariants: guards, interposition, and failures that are never silent."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession, HookRegistry, HookResult, ModuleCoordinator, ToolResult
from contract.doubles import Approvals, Display, Listener, ask, deny, inject, modify, raising
from contract.installer import Installer, ScriptedProvider, mounting
from contract.requirements import requirement


async def _hang(event: str, data: dict[str, Any]) -> HookResult:
    await asyncio.Event().wait()
    return HookResult()


@requirement("LAW-1", "LAW-2", "LAW-3", "LAW-4")
@pytest.mark.parametrize(
    ("handler", "timeout"),
    [
        (raising(RuntimeError("boom")), None),
        (raising(asyncio.CancelledError()), None),
        (_hang, 0.01),
        (Listener("rubbish"), None),
        (Listener({"action": "bogus"}), None),
        ("not callable", None),
    ],
    ids=["raises", "cancels", "hangs", "rubbish", "bogus", "nonsense"],
)
async def test_a_guard_that_fails_denies(handler: Any, timeout: float | None) -> None:
    registry = HookRegistry()
    later = Listener()
    registry.register("tool:pre", handler, name="guard", timeout=timeout, on_error="deny")
    registry.register("tool:pre", later, 1)

    async with asyncio.timeout(120):
        result = await registry.emit("tool:pre", {})

    assert result.action == "deny"
    assert result.reason
    assert later.calls == []


@requirement("LAW-1", "LAW-5")
async def test_an_observer_that_hangs_is_logged_and_left_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = HookRegistry()
    later = Listener()
    registry.register("tool:pre", _hang, name="observer", timeout=0.01)
    registry.register("tool:pre", later)

    async with asyncio.timeout(120):
        result = await registry.emit("tool:pre", {})

    assert result.action == "continue"
    assert len(later.calls) == 1
    assert "observer" in caplog.text


@requirement("LAW-1")
async def test_a_guard_that_works_is_a_handler_like_any_other() -> None:
    registry = HookRegistry()
    guard = Listener(modify({"n": 2}))
    remove = registry.register("tool:pre", guard, 5, "guard", timeout=5.0, on_error="deny")

    result = await registry.emit("tool:pre", {"n": 1})

    assert (result.action, result.data) == ("continue", {"n": 2})
    assert registry.list_handlers("tool:pre") == {"tool:pre": ["guard"]}
    remove()
    assert registry.list_handlers("tool:pre") == {"tool:pre": []}


@requirement("LAW-6")
@pytest.mark.parametrize("answer", [inject("text"), ask("May I?")], ids=["inject", "ask"])
@pytest.mark.parametrize("edit_first", [True, False])
async def test_no_edit_is_lost_when_another_handler_injects_or_asks(
    answer: HookResult, edit_first: bool
) -> None:
    registry = HookRegistry()
    registry.register("tool:pre", Listener(modify({"n": 2})), 0 if edit_first else 2)
    registry.register("tool:pre", Listener(answer), 1)

    result = await registry.emit("tool:pre", {"n": 1})

    assert result.action == answer.action
    assert result.data == {"n": 2}


@requirement("LAW-7")
@pytest.mark.parametrize("last", [None, inject("text"), ask("May I?"), deny()])
async def test_what_handlers_tell_the_user_survives_the_merge(last: HookResult | None) -> None:
    display = Display()
    coordinator = ModuleCoordinator(None, Approvals(), display)
    answers = [
        HookResult(user_message="from continue"),
        modify({"n": 2}, user_message="from modify", user_message_level="warning"),
        inject("a", user_message="from inject", user_message_level="error"),
        last,
    ]
    for index, answer in enumerate(answers):
        coordinator.hooks.register("tool:pre", Listener(answer), index)

    result = await coordinator.hooks.emit("tool:pre", {"n": 1})
    await coordinator.process_hook_result(result, "tool:pre", "loop")

    assert sorted((text, level) for text, level, _ in display.shown) == [
        ("from continue", "info"),
        ("from inject", "error"),
        ("from modify", "warning"),
    ]


_RANK = ["deny", "ask_user", "inject_context", "continue"]
_Kind = Literal["continue", "none", "modify", "inject", "ask", "deny", "raise", "hang", "rubbish"]
_kinds: st.SearchStrategy[_Kind] = st.sampled_from(
    ["continue", "none", "modify", "inject", "ask", "deny", "raise", "hang", "rubbish"]
)
_handlers = st.lists(st.tuples(_kinds, st.integers(-3, 3), st.booleans()), max_size=8)


def _handler(kind: _Kind, number: int) -> Any:
    answers: dict[str, Any] = {
        "continue": HookResult(user_message=f"m{number}"),
        "none": None,
        "modify": modify({"edit": number}, user_message=f"m{number}"),
        "inject": inject(f"i{number}", user_message=f"m{number}"),
        "ask": ask(f"a{number}"),
        "deny": deny(f"d{number}"),
        "rubbish": 42,
    }
    if kind == "hang":
        return _hang
    return raising(RuntimeError("boom")) if kind == "raise" else Listener(answers[kind])


def _outcome(kind: _Kind, is_guard: bool) -> str:
    """Give the action this handler's answer counts as."""
    if kind in ("raise", "hang"):
        return "deny" if is_guard else "continue"
    named = {"inject": "inject_context", "ask": "ask_user", "deny": "deny", "rubbish": "deny"}
    return named.get(kind, "continue")


@requirement("LAW-25")
@given(_handlers)
def test_any_mix_of_handlers_keeps_the_hook_law(handlers: list[tuple[_Kind, int, bool]]) -> None:
    registry = HookRegistry()
    for number, (kind, priority, is_guard) in enumerate(handlers):
        registry.register(
            "tool:pre",
            _handler(kind, number),
            priority,
            timeout=0.001 if kind == "hang" else None,
            on_error="deny" if is_guard else "continue",
        )

    result = asyncio.run(registry.emit("tool:pre", {"edit": None}))

    order = sorted(range(len(handlers)), key=lambda number: handlers[number][1])
    outcomes = [_outcome(handlers[number][0], handlers[number][2]) for number in order]
    assert result.action == min(outcomes, key=_RANK.index, default="continue")
    if result.action != "deny":
        edits = [number for number in order if handlers[number][0] == "modify"]
        assert result.data is None or result.data["edit"] == (edits[-1] if edits else None)
        assert result.data is not None or not edits
        injected = [f"i{number}" for number in order if handlers[number][0] == "inject"]
        assert [entry.content for entry in result.context_injections] == injected


class _Wrapper:
    """Stands before a module, keeps its name and adds a mark to the chain."""

    def __init__(self, mark: str, name: str, inner: Any) -> None:
        self.mark, self.name, self.inner = mark, name, inner

    description = "wrapped"

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        result = await self.inner.execute(input)
        return ToolResult(output=f"{self.mark}({result.output})")


class _Tool:
    name = "bare"
    description = "A tool."

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(output="bare")


@requirement("LAW-13")
async def test_without_wrappers_everything_is_what_was_mounted() -> None:
    coordinator = ModuleCoordinator()
    tool = _Tool()
    await coordinator.mount("tools", tool)

    remove = coordinator.interpose("providers", lambda name, module: object(), name="other")

    assert coordinator.get("tools") is coordinator.mount_points["tools"]
    assert coordinator.get("tools", "bare") is tool
    remove()


@requirement("LAW-14", "LAW-15")
async def test_wrappers_nest_reach_later_modules_and_can_be_removed() -> None:
    coordinator = ModuleCoordinator()
    await coordinator.mount("tools", _Tool())

    def wrapping(mark: str) -> Any:
        def wrap(name: str, module: Any) -> _Wrapper:
            return _Wrapper(mark, name, module)

        return wrap

    remove_inner = coordinator.interpose("tools", wrapping("inner"), name="inner", priority=10)
    remove_outer = coordinator.interpose("tools", wrapping("outer"), name="outer", priority=-10)
    later = _Tool()
    await coordinator.mount("tools", later, name="later")

    async def output(name: str) -> Any:
        return (await coordinator.get_mounted("tools")[name].execute({})).output

    assert await output("bare") == "outer(inner(bare))"
    assert await output("later") == "outer(inner(bare))"
    assert (await coordinator.get("tools")["later"].execute({})).output == "outer(inner(bare))"
    assert coordinator.mount_points["tools"]["later"] is later
    assert coordinator.get("tools", "later") is coordinator.get("tools", "later")
    remove_inner()
    assert await output("later") == "outer(bare)"
    remove_outer()
    assert coordinator.get("tools", "later") is later
    assert coordinator.get("tools", "absent") is None


@requirement("LAW-14")
async def test_an_interposed_tool_is_seen_by_a_loop_however_it_reads(installed: Installer) -> None:
    plan = installed.basics(tools=[{"module": "tool-bare"}])
    installed.object("tool-bare", "tools", _Tool())
    outputs: list[Any] = []

    async def act(coordinator: ModuleCoordinator, tools: dict[str, Any], **_: Any) -> str:
        found: list[Any] = [
            tools["bare"],
            coordinator.get("tools", "bare"),
            coordinator.get("tools")["bare"],
        ]
        for tool in found:
            outputs.append((await tool.execute({})).output)
        return "done"

    installed.loop.act = act
    async with AmplifierSession(plan) as session:
        session.coordinator.interpose(
            "tools", lambda name, module: _Wrapper("seen", name, module), name="spy"
        )
        await session.execute("hi")

    assert outputs == ["seen(bare)"] * 3


@requirement("LAW-14")
async def test_single_slots_can_be_interposed_too(installed: Installer) -> None:
    calls: list[str] = []

    class Spy:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def execute(self, **kwargs: Any) -> str:
            calls.append(kwargs["prompt"])
            return await self.inner.execute(**kwargs)

    async with AmplifierSession(installed.basics()) as session:
        session.coordinator.interpose("orchestrator", lambda _, loop: Spy(loop), name="spy")
        assert await session.execute("hi") == "answer to hi"

    assert calls == ["hi"]


@requirement("LAW-16", "LAW-17")
async def test_every_observer_sees_every_failed_module(installed: Installer) -> None:
    heard = Listener()

    async def observe(coordinator: ModuleCoordinator, config: dict[str, Any]) -> None:
        coordinator.hooks.register("module:load_failed", heard)

    plan = installed.basics(
        tools=[{"module": "tool-broken"}],
        hooks=[{"module": "hooks-broken"}, {"module": "hooks-observer"}],
    )
    plan["providers"].append({"module": "provider-absent"})
    for module_id in ("tool-broken", "hooks-broken"):
        installed.add(module_id, raising(RuntimeError(f"{module_id} is broken")))
    installed.add("hooks-observer", observe)
    session = AmplifierSession(plan)

    await session.initialize()

    failed = {"provider-absent", "tool-broken", "hooks-broken"}
    assert {data["module_id"] for _, data in heard.calls} == failed
    modules = {entry.module_id: entry for entry in session.status.modules}
    assert {name for name, entry in modules.items() if entry.state == "failed"} == failed
    assert "tool-broken is broken" in (modules["tool-broken"].error or "")
    assert modules["provider-test"].error is None


@requirement("LAW-18")
@pytest.mark.parametrize("section", ["providers", "tools", "hooks"])
async def test_a_required_module_that_fails_stops_the_session(
    installed: Installer, section: str
) -> None:
    plan = installed.basics()
    plan[section] = [{"module": "any-broken", "required": True}]
    installed.add("any-broken", raising(RuntimeError("boom")))
    session = AmplifierSession(plan)
    heard = Listener()
    session.coordinator.hooks.register("module:load_failed", heard)

    with pytest.raises(RuntimeError, match="any-broken"):
        await session.initialize()

    assert session.initialized is False
    assert [data["module_id"] for _, data in heard.calls] == ["any-broken"]


@requirement("LAW-18", "LAW-24")
async def test_a_required_module_that_loads_changes_nothing(installed: Installer) -> None:
    plan = installed.basics()
    plan["providers"] = [{"module": "provider-test", "required": True}]
    installed.add("provider-test", mounting("providers", ScriptedProvider(), "test"))

    async with AmplifierSession(plan) as session:
        assert await session.execute("hi") == "answer to hi"
