"""Tests of whole sessions whose steps are led by hooks, with guards and children around them."""

from __future__ import annotations

from typing import Any

from amplifier_core import AmplifierSession, HookResult, ToolResult
from contract.doubles import Listener, broken_pairs
from contract.requirements import requirement

STAGES = ("plan", "build", "check")


class Stage:
    """A tool of a workflow; it keeps the order in which the tools of one run."""

    def __init__(self, name: str, done: list[tuple[str, dict[str, Any]]]) -> None:
        self.name = name
        self.description = f"Does the stage {name}."
        self._done = done

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self._done.append((self.name, input))
        return ToolResult(output=f"{self.name} is done")


class Workflow:
    """A scheduler that knows what comes next, whatever the model calls."""

    def __init__(self) -> None:
        self._left = [*STAGES]

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        if not self._left:
            return HookResult(action="deny", reason="the workflow is complete")
        return HookResult(action="modify", data={"tool": self._left.pop(0)})


def plan_of(*script: Any, hooks: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the plan of a session with this loop and a scripted model."""
    return {
        "session": {"orchestrator": "loop-events", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"script": list(script)}}],
        "hooks": [{"module": each} for each in hooks],
    }


def call_of(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


@requirement("ORCH-23")
async def test_a_workflow_of_several_steps_is_led_by_events() -> None:
    """The model calls one tool over and over; the events make a workflow of it."""
    done: list[tuple[str, dict[str, Any]]] = []
    script = [call_of("plan", step=number) for number in range(4)]
    selected = Listener()
    async with AmplifierSession(plan_of(*script, "All done.")) as session:
        coordinator = session.coordinator
        for name in STAGES:
            await coordinator.mount("tools", Stage(name, done))
        coordinator.hooks.register("tool:selecting", Workflow())
        coordinator.hooks.register("tool:selected", selected)
        answer = await session.execute("Build it.")
        history = await coordinator.get_mounted("context").get_messages()

    assert answer == "All done."
    assert done == [(name, {"step": number}) for number, name in enumerate(STAGES)]
    assert [data["tool"] for _, data in selected.calls] == [*STAGES]
    assert history[-2]["content"] == "Denied by hook: the workflow is complete"
    assert broken_pairs(history) == []


async def test_a_child_session_is_under_the_schedulers_that_are_guards() -> None:
    done: list[tuple[str, dict[str, Any]]] = []
    plan = plan_of(call_of("plan"), "Done.")
    async with AmplifierSession(plan) as parent:
        deny = Listener(HookResult(action="deny", reason="not in this tree"))
        parent.coordinator.hooks.register("tool:selecting", deny, on_error="deny")
        async with parent.fork({}) as child:
            await child.coordinator.mount("tools", Stage("plan", done))
            await child.execute("Build it.")

    assert len(deny.calls) == 1
    assert done == []


async def test_redaction_changes_no_call_that_it_hears_of() -> None:
    """What only looks like a secret is not a reason to change or to refuse a call."""
    done: list[tuple[str, dict[str, Any]]] = []
    selected = Listener()
    plan = plan_of(call_of("plan", text="password=hunter22x"), "Done.", hooks=("hooks-redaction",))
    async with AmplifierSession(plan) as session:
        await session.coordinator.mount("tools", Stage("plan", done))
        session.coordinator.hooks.register("tool:selected", selected)
        await session.execute("Build it.")

    assert done == [("plan", {"text": "password=hunter22x"})]
    assert selected.data["source"] == "llm"
