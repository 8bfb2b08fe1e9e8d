"""The fault suite of loops: each rule's test fails a loop that breaks it and passes a good one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_conformance import RULES
from amplifier_conformance import OrchestratorFaultTests as FaultTests
from amplifier_core import (
    ChatRequest,
    ChatResponse,
    LLMError,
    Message,
    MockCoordinator,
    TextBlock,
    ToolSpec,
)
from amplifier_core.history import calls_in, interrupted_result, unanswered_calls
from contract.broken_rules import reported
from contract.requirements import requirement


class Suite(FaultTests):
    """The suite as a loop's author would inherit it, in a hurry."""

    __test__ = False

    start_seconds = 0.2
    cancel_seconds = 0.5
    patience_seconds = 10.0


class Patient(Suite):
    """The same for loops that are good: a busy machine may take its time with 50 MB."""

    __test__ = False

    patience_seconds = 120.0


class Loop:
    """A loop that does everything right, except what `fault` names."""

    def __init__(self, fault: str = "") -> None:
        self._fault = fault
        self._background: list[asyncio.Task[Any]] = []

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: Any,
        coordinator: Any = None,
    ) -> str:
        submitted = await hooks.emit("prompt:submit", {"prompt": prompt})
        if submitted.action == "deny" and self._fault != "loop.deny_prompt":
            return f"Operation denied: {submitted.reason}"
        if self._fault == "loop.hook_raises":
            for event, handler in hooks.registered:
                await handler(event, {})
        if self._fault == "loop.leftover":
            self._background.append(asyncio.create_task(asyncio.Event().wait()))
        await context.add_message({"role": "user", "content": prompt})
        try:
            return await self._steps(context, next(iter(providers.values())), tools, hooks)
        except LLMError:
            if self._fault == "loop.provider_error":
                return ""
            raise
        except asyncio.CancelledError:
            if self._fault in ("loop.cancel", "loop.slow_peer"):
                return "cancelled"
            raise

    async def _steps(self, context: Any, provider: Any, tools: Any, hooks: Any) -> str:
        for _ in range(1_000 if self._fault == "loop.endless" else 50):
            response = await provider.complete(await self._request(context, tools))
            calls = provider.parse_tool_calls(response)
            if not calls:
                return text_of(response)
            stored = [{"id": c.id, "tool": c.name, "arguments": c.arguments} for c in calls]
            await context.add_message({"role": "assistant", "content": "", "tool_calls": stored})
            await self._run_all(calls, context, tools, hooks)
        return "I have to stop here."

    async def _request(self, context: Any, tools: Any) -> ChatRequest:
        stored = await context.get_messages_for_request()
        if self._fault != "loop.orphan":
            stored = _answered(stored)
        return ChatRequest(
            messages=[Message(**message) for message in stored],
            tools=[ToolSpec(name=name, parameters=tools[name].input_schema) for name in tools],
        )

    async def _run_all(self, calls: list[Any], context: Any, tools: Any, hooks: Any) -> None:
        outputs = dict.fromkeys((call.id for call in calls), "[interrupted]")
        finished: list[str] = []

        async def run(call: Any) -> None:
            outputs[call.id] = await self._run(call, tools, hooks)
            finished.append(call.id)

        try:
            await asyncio.gather(*(run(call) for call in calls))
        finally:
            order = finished if self._fault in ("loop.order", "loop.history") else list(outputs)
            for call_id in order:
                message = {"role": "tool", "tool_call_id": call_id, "content": outputs[call_id]}
                await context.add_message(message)

    async def _run(self, call: Any, tools: Any, hooks: Any) -> str:
        data = {"tool_name": call.name, "tool_call_id": call.id, "tool_input": call.arguments}
        answer = await hooks.emit("tool:pre", data)
        if answer.action == "deny" and self._fault != "loop.deny":
            return f"Denied by hook: {answer.reason}"
        arguments = data if self._fault == "loop.modify" else answer.data or data
        if call.name not in tools and self._fault != "loop.unknown_tool":
            return f"There is no tool {call.name}"
        tool = tools[call.name]
        try:
            result = await tool.execute(arguments["tool_input"])
            if self._fault != "loop.rubbish":
                text: str = result.get_serialized_output()
        except Exception as error:
            if self._fault == "loop.tool_raises":
                raise
            return f"Error: {error}"
        text = result.get_serialized_output()
        if self._fault == "loop.large" and len(text) > 1_000_000:
            raise ValueError("too long")
        return text


class PlansFirst(Loop):
    """A loop that has the model write a plan, without tools, before its first step."""

    async def _steps(self, context: Any, provider: Any, tools: Any, hooks: Any) -> str:
        request = await self._request(context, tools={})
        wish = Message(role="user", content="Write a plan. Do not call a tool yet.")
        planned = await provider.complete(ChatRequest(messages=[*request.messages, wish]))
        await context.add_message({"role": "assistant", "content": text_of(planned)})
        return await super()._steps(context, provider, tools, hooks)


class VerifiesLast(Loop):
    """A loop that has the model check its answer, and revise it twice at most."""

    async def _steps(self, context: Any, provider: Any, tools: Any, hooks: Any) -> str:
        answer = await super()._steps(context, provider, tools, hooks)
        for _ in range(2):
            question = Message(
                role="user", content=f"Is this correct? Say yes or why not: {answer}"
            )
            verdict = text_of(await provider.complete(ChatRequest(messages=[question])))
            if verdict == "yes":
                break
            await context.add_message({"role": "assistant", "content": answer})
            await context.add_message({"role": "user", "content": f"Revise it: {verdict}"})
            answer = await super()._steps(context, provider, tools, hooks)
        return answer


# The test that finds out, for each rule.
TESTS = {
    "loop.cancel": "test_a_turn_cancelled_in_a_tool_ends",
    "loop.slow_peer": "test_a_slow_model_does_not_outlast_the_deadline",
    "loop.leftover": "test_a_tool_that_raises_does_not_end_the_turn",
    "loop.history": "test_a_turn_cancelled_in_a_tool_ends",
    "loop.order": "test_results_keep_the_order_of_the_calls",
    "loop.tool_raises": "test_a_tool_that_raises_does_not_end_the_turn",
    "loop.unknown_tool": "test_an_unknown_tool_does_not_end_the_turn",
    "loop.large": "test_a_large_result_does_not_end_the_turn",
    "loop.deny": "test_a_denied_tool_is_not_run",
    "loop.deny_prompt": "test_a_denied_prompt_reaches_no_model",
    "loop.hook_raises": "test_hooks_that_raise_do_not_end_the_turn",
    "loop.provider_error": "test_a_provider_error_reaches_the_caller",
    "loop.modify": "test_modified_input_is_used",
    "loop.orphan": "test_an_orphaned_tool_call_reaches_no_model",
    "loop.rubbish": "test_a_result_of_the_wrong_type_does_not_end_the_turn",
    "loop.endless": "test_an_endless_model_is_stopped",
}
FURTHER = {
    "loop.deny": "test_a_guard_that_hangs_denies",
    "loop.cancel": "test_a_turn_cancelled_in_a_model_call_ends",
}


@requirement("VALID-20")
@pytest.mark.parametrize("kind", [Loop, PlansFirst, VerifiesLast])
@pytest.mark.parametrize(("rule", "test"), [*TESTS.items(), *FURTHER.items()])
async def test_a_loop_that_breaks_a_rule_fails_with_its_name(
    rule: str, test: str, kind: type[Loop]
) -> None:
    with reported(rule):
        await getattr(Suite(), test)(kind(rule), MockCoordinator())


@requirement("VALID-20")
@pytest.mark.parametrize("test", sorted({*TESTS.values(), *FURTHER.values()}))
@pytest.mark.parametrize("kind", [Loop, PlansFirst, VerifiesLast])
async def test_a_good_loop_keeps_every_rule(kind: type[Loop], test: str) -> None:
    await getattr(Patient(), test)(kind(), MockCoordinator())


def test_every_rule_of_loops_and_every_test_of_the_suite_is_proved() -> None:
    tests = {*TESTS.values(), *FURTHER.values()}

    assert set(TESTS) == {rule for rule in RULES if rule.startswith("loop.")}
    assert tests == {name for name in dir(Suite) if name.startswith("test_")}


@pytest.mark.parametrize(
    "test", [TESTS["loop.cancel"], TESTS["loop.slow_peer"], FURTHER["loop.cancel"]]
)
async def test_a_loop_that_asks_nobody_is_not_judged(test: str) -> None:
    class Mute:
        # Without a place for the coordinator: the loop of the contract's first version.
        async def execute(
            self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any
        ) -> str:
            return ""

    with pytest.raises(pytest.skip.Exception, match="the turn ended before"):
        await getattr(Suite(), test)(Mute(), MockCoordinator())


@pytest.mark.parametrize(
    "test", [TESTS["loop.tool_raises"], TESTS["loop.deny"], TESTS["loop.order"]]
)
async def test_a_loop_that_offers_no_tools_is_not_judged_by_them(test: str) -> None:
    class Chat(Loop):
        async def _steps(self, context: Any, provider: Any, tools: Any, hooks: Any) -> str:
            return await super()._steps(context, provider, {}, hooks)

    with pytest.raises(pytest.skip.Exception, match="no request offered the model a tool"):
        await getattr(Suite(), test)(Chat(), MockCoordinator())


async def test_a_loop_may_offer_tools_beside_the_request() -> None:
    class Beside(Loop):
        async def _steps(self, context: Any, provider: Any, tools: Any, hooks: Any) -> str:
            ask = provider.complete.side_effect

            async def ask_with_tools(request: ChatRequest) -> ChatResponse:
                return await ask(request, tools=list(tools))

            provider.complete.side_effect = ask_with_tools
            return await super()._steps(context, provider, tools, hooks)

        async def _request(self, context: Any, tools: Any) -> ChatRequest:
            return await super()._request(context, {})

    await Suite().test_results_keep_the_order_of_the_calls(Beside(), MockCoordinator())


async def test_a_plan_does_not_hide_that_the_turn_ended_with_its_first_tool() -> None:
    class Ends(PlansFirst):
        async def _run(self, call: Any, tools: Any, hooks: Any) -> str:
            raise LookupError("planted end")

        async def execute(self, *args: Any, **given: Any) -> str:
            try:
                return await super().execute(*args, **given)
            except LookupError:
                return "I stop here."

    with pytest.raises(AssertionError, match=r"^Rule loop\.unknown_tool"):
        await Suite().test_an_unknown_tool_does_not_end_the_turn(Ends(), MockCoordinator())


async def test_a_loop_that_takes_anything_is_given_the_coordinator() -> None:
    class Open(Loop):
        async def execute(self, **given: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride] - looser on purpose
            assert isinstance(given["coordinator"], MockCoordinator)
            return await super().execute(**given)

    await Suite().test_a_denied_tool_is_not_run(Open(), MockCoordinator())


async def test_a_failure_that_is_reported_in_the_answer_is_enough() -> None:
    class Telling(Loop):
        async def execute(self, *args: Any, **given: Any) -> str:
            try:
                return await super().execute(*args, **given)
            except LLMError as error:
                return f"The model could not be asked: {error}"

    await Suite().test_a_provider_error_reaches_the_caller(Telling(), MockCoordinator())


def text_of(response: ChatResponse) -> str:
    """Return the text of an answer, without what else is in it."""
    return "".join(block.text for block in response.content if isinstance(block, TextBlock))


def _answered(stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a history with an answer after each call that has none."""
    open_calls = unanswered_calls(stored)
    answered: list[dict[str, Any]] = []
    for message in stored:
        answered.append(message)
        for call_id, name in calls_in(message).items():
            if call_id in open_calls:
                answered.append(interrupted_result(call_id, name))
    return answered
