"""The fault suite of orchestrators."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_conformance.rules import require
from amplifier_conformance.suite import FaultTests
from amplifier_conformance.turn import (
    SlowModel,
    SlowTool,
    Turn,
    asking_for,
    never,
)
from amplifier_conformance.watch import (
    Outcome,
    cancel_in_mid_call,
    end_at_deadline,
    leave_nothing,
    outcome_at_large,
)
from amplifier_core.events import ALL_EVENTS
from amplifier_core.history import unanswered_calls
from amplifier_core.llm_errors import AuthenticationError, LLMError
from amplifier_core.models import HookResult
from amplifier_core.testing import MockTool

__all__ = ["OrchestratorFaultTests"]

# A loop that runs more steps with tools than this has no effective limit.
_ENDLESS_STEPS = 200
_ORPHAN: list[dict[str, Any]] = [
    {"role": "user", "content": "look it up"},
    {
        "role": "assistant",
        "content": [{"type": "tool_call", "id": "orphan", "name": "work", "input": {}}],
        "tool_calls": [{"id": "orphan", "tool": "work", "arguments": {}}],
    },
]


async def _deny(event: str, data: dict[str, Any]) -> HookResult:
    return HookResult(action="deny", reason="planted denial")


async def _raise(event: str, data: dict[str, Any]) -> HookResult:
    raise RuntimeError(f"planted failure on {event}")


class OrchestratorFaultTests(FaultTests):
    """Inherit this in the tests of an orchestrator.

    A loop is judged by what it guarantees and not by how it gets to its answer: it may call the
    model as often as it likes, for a plan, a summary or a check, with tools and without.
    """

    async def test_a_tool_that_raises_does_not_end_the_turn(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """A tool has a bug."""
        turn = Turn(coordinator, asking_for("work"), [MockTool("work")])
        turn.tools["work"].execute.side_effect = RuntimeError("planted failure")
        await self._completes("loop.tool_raises", orchestrator_module, turn)

    async def test_an_unknown_tool_does_not_end_the_turn(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """The model invents a tool."""
        turn = Turn(coordinator, asking_for("no_such_tool"), [MockTool("work")])
        await self._completes("loop.unknown_tool", orchestrator_module, turn)

    async def test_a_large_result_does_not_end_the_turn(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """A tool returns 50 MB."""

        def call(size: int) -> Any:
            tool = MockTool("work", "x" * size)
            return Turn(coordinator, asking_for("work"), [tool]).call(orchestrator_module)

        outcome = await outcome_at_large(call, self.patience_seconds)
        require("loop.large", isinstance(outcome.value, str), str(outcome))

    async def test_a_result_of_the_wrong_type_does_not_end_the_turn(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """A tool returns something other than a ToolResult."""
        for rubbish in (None, "text", {"success": True}):
            turn = Turn(coordinator, asking_for("work"), [MockTool("work")])
            turn.tools["work"].execute.side_effect = None
            turn.tools["work"].execute.return_value = rubbish
            if not await self._completes("loop.rubbish", orchestrator_module, turn):
                return

    async def test_hooks_that_raise_do_not_end_the_turn(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """Every event has a handler with a bug."""
        for event in ALL_EVENTS:
            coordinator.hooks.register(event, _raise, name="planted")
        turn = Turn(coordinator, asking_for("work"), [MockTool("work")])
        await self._completes("loop.hook_raises", orchestrator_module, turn)

    async def test_a_denied_tool_is_not_run(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """A hook denies the call."""
        coordinator.hooks.register("tool:pre", _deny, name="planted")
        turn = Turn(coordinator, asking_for("work"), [MockTool("work")])
        await self._does_not_run(orchestrator_module, turn)

    async def test_a_guard_that_hangs_denies(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """A guard does not answer in time."""
        guard = {"name": "planted", "timeout": 0.01, "on_error": "deny"}
        coordinator.hooks.register("tool:pre", never, **guard)
        turn = Turn(coordinator, asking_for("work"), [MockTool("work")])
        await self._does_not_run(orchestrator_module, turn)

    async def test_a_denied_prompt_reaches_no_model(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """A hook denies the prompt; the turn may end in any way."""
        coordinator.hooks.register("prompt:submit", _deny, name="planted")
        turn = Turn(coordinator)
        outcome = await turn.run(orchestrator_module, self.patience_seconds)
        kept = outcome.ended and turn.provider.call_count == 0
        found = f"it was asked {turn.provider.call_count} times and {outcome}"
        require("loop.deny_prompt", kept, found)

    async def test_modified_input_is_used(self, orchestrator_module: Any, coordinator: Any) -> None:
        """A hook changes the input of a tool."""

        async def modify(event: str, data: dict[str, Any]) -> HookResult:
            return HookResult(action="modify", data={**data, "tool_input": {"safe": True}})

        coordinator.hooks.register("tool:pre", modify, name="planted")
        tool = MockTool("work")
        turn = Turn(coordinator, asking_for("work"), [tool])
        outcome = await turn.run(orchestrator_module, self.patience_seconds)
        self._needs_a_step(turn, outcome)
        require("loop.modify", tool.last_input == {"safe": True}, f"it got {tool.last_input!r}")

    async def test_a_provider_error_reaches_the_caller(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """The model cannot be reached: the turn raises the error, or reports it in its answer."""
        # For every call, because a loop may try again.
        turn = Turn(coordinator, [AuthenticationError("planted failure")] * _ENDLESS_STEPS)
        outcome = await turn.run(orchestrator_module, self.patience_seconds)
        reported = isinstance(outcome.value, str) and "planted failure" in outcome.value
        kept = reported or isinstance(outcome.error, LLMError)
        require("loop.provider_error", kept, str(outcome))
        self._history_is_whole(turn)

    async def test_a_turn_cancelled_in_a_tool_ends(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """A turn is cancelled while one tool has ended and another has not."""
        turn = Turn(coordinator, asking_for("work", "wait"), [MockTool("work"), SlowTool("wait")])
        await self._is_cancelled(orchestrator_module, turn)

    async def test_a_turn_cancelled_in_a_model_call_ends(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """A turn is cancelled in a model call, after a tool call."""
        turn = Turn(coordinator, tools=[MockTool("work")])
        turn.provider = SlowModel(asking_for("work"))
        await self._is_cancelled(orchestrator_module, turn)

    async def test_a_slow_model_does_not_outlast_the_deadline(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """The model never answers."""
        turn = Turn(coordinator)
        turn.provider = SlowModel([])
        call = turn.call(orchestrator_module)
        limits = {"deadline": self.start_seconds, "within": self.cancel_seconds}
        if not await end_at_deadline("loop", call, **limits):
            self.nothing_to_judge("the turn ended before the model was asked")

    async def test_results_keep_the_order_of_the_calls(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """The first call takes longer than the second."""
        tools = [SlowTool("slow", self.start_seconds / 4), MockTool("quick")]
        turn = Turn(coordinator, asking_for("slow", "quick"), tools)
        outcome = await turn.run(orchestrator_module, self.patience_seconds)
        self._needs_a_step(turn, outcome)
        called = ["call-0-slow", "call-1-quick"]
        results = [m["tool_call_id"] for m in turn.context.messages if m.get("role") == "tool"]
        # A loop may store other results as well.
        stored = [each for each in results if each in called]
        require("loop.order", stored == called, f"stored as {', '.join(results)}")

    async def test_an_orphaned_tool_call_reaches_no_model(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """A crash left a tool call without its result in the history."""
        turn = Turn(coordinator, tools=[MockTool("work")], history=_ORPHAN)
        outcome = await turn.run(orchestrator_module, self.patience_seconds)
        asked = [
            name
            for request in turn.provider.requests
            for name in unanswered_calls([each.model_dump() for each in request.messages])
        ]
        kept = isinstance(outcome.value, str) and not asked
        require("loop.orphan", kept, f"it was sent with {asked} and {outcome}")

    async def test_an_endless_model_is_stopped(
        self, orchestrator_module: Any, coordinator: Any
    ) -> None:
        """The model calls a tool in every answer."""
        turn = Turn(coordinator, asking_for("work") * _ENDLESS_STEPS, [MockTool("work")])
        outcome = await turn.run(orchestrator_module, self.patience_seconds)
        self._needs_a_step(turn, outcome)
        found = f"after {turn.provider.steps} steps {outcome}"
        require("loop.endless", outcome.ended and turn.provider.has_more, found)
        self._history_is_whole(turn)

    async def _completes(self, rule: str, orchestrator: Any, turn: Turn) -> bool:
        before = asyncio.all_tasks()
        outcome = await turn.run(orchestrator, self.patience_seconds)
        self._needs_a_step(turn, outcome)
        continued = isinstance(outcome.value, str) and turn.provider.was_asked_after_step
        if require(rule, continued, str(outcome)):
            self._history_is_whole(turn)
            await leave_nothing("loop", before, self.cancel_seconds)
        return continued

    async def _does_not_run(self, orchestrator: Any, turn: Turn) -> None:
        outcome = await turn.run(orchestrator, self.patience_seconds)
        self._needs_a_step(turn, outcome)
        found = f"it was run {turn.tools['work'].call_count} times and {outcome}"
        require("loop.deny", outcome.ended and turn.tools["work"].call_count == 0, found)
        self._history_is_whole(turn)

    async def _is_cancelled(self, orchestrator: Any, turn: Turn) -> None:
        call = turn.call(orchestrator)
        limits = {"after": self.start_seconds, "within": self.cancel_seconds}
        if not await cancel_in_mid_call("loop", call, **limits):
            self.nothing_to_judge("the turn ended before it could be cancelled")
        self._history_is_whole(turn)

    def _needs_a_step(self, turn: Turn, outcome: Outcome) -> None:
        """Skip the test if the loop called the model, but never offered it a tool."""
        asked_for_text = turn.provider.call_count > 0 and turn.provider.steps == 0
        if asked_for_text and isinstance(outcome.value, str):
            self.nothing_to_judge("no request offered the model a tool")

    def _history_is_whole(self, turn: Turn) -> None:
        waiting = unanswered_calls(turn.context.messages)
        require("loop.history", not waiting, f"without a result: {', '.join(waiting)}")
