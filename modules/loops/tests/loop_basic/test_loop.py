"""Tests of a turn: how it begins, where it may end, and what is told on each way out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ChatRequest, ChatResponse, LLMError
from amplifier_core.testing import EventRecorder, MockContextManager, MockTool
from amplifier_module_loops.limits import LIMIT
from amplifier_module_loops.loop_basic.loop import BasicLoop
from amplifier_module_loops.model_calls import select_provider
from contract.doubles import Listener, ask, broken_pairs, deny, modify
from contract.installer import Installer, ScriptedProvider, response
from contract.requirements import requirement
from contract.turns import Turn, calls, loop


def ended(turn: Turn) -> tuple[str, str, str]:
    """Give the statuses a turn ended with, and its reason to stop."""
    (execution,), (orchestration,) = turn.told("execution:end"), turn.told("orchestrator:complete")
    return execution["status"], orchestration["status"], orchestration["stop_reason"]


@requirement("ORCH-7")
async def test_a_turn_that_went_well_says_so() -> None:
    turn = Turn(await loop(), calls("none"), "All good.")

    assert await turn.run() == "All good."

    assert ended(turn) == ("completed", "success", "completed")
    assert turn.told("orchestrator:complete")[0]["turn_count"] == 2
    assert turn.told("prompt:complete")[0]["response_preview"] == "All good."


@requirement("SONE-1096")
@pytest.mark.parametrize("defaults", [{"model": "small"}, {}])
async def test_a_request_is_announced_with_the_model_that_the_provider_uses(
    defaults: dict[str, str],
) -> None:
    turn = Turn(await loop(), "All good.")
    turn.provider.defaults = dict(defaults)

    await turn.run()

    (request,) = turn.told("provider:request")
    assert request["model"] == defaults.get("model")
    assert request["iteration"] == 1


@requirement("ORCH-6", "ORCH-7")
@pytest.mark.parametrize("event", ["prompt:submit", "provider:request"])
async def test_a_denied_prompt_or_request_ends_the_turn_with_the_reason(event: str) -> None:
    turn = Turn(await loop(), "Never.")
    turn.hooks.register(event, Listener(deny("not today")))

    assert await turn.run() == "Operation denied: not today"

    assert ended(turn) == ("completed", "incomplete", "denied")
    assert turn.provider.requests == []
    assert turn.told("prompt:complete") == []


async def test_an_edited_prompt_is_what_is_stored() -> None:
    turn = Turn(await loop(), "Hello.")
    turn.hooks.register("prompt:submit", Listener(modify({"prompt": "edited"})))

    await turn.run("original")

    assert turn.context.messages[0] == {"role": "user", "content": "edited"}


@requirement("ORCH-11", "ORCH-20")
async def test_without_a_coordinator_there_is_nobody_to_ask_and_the_answer_is_no() -> None:
    turn = Turn(await loop(), "Never.")
    turn.coordinator = None
    turn.hooks.register("prompt:submit", Listener(ask("May I?")))

    assert await turn.run() == "Operation denied: No approval system available"


@requirement("ORCH-15")
@pytest.mark.parametrize(("limit", "with_tools"), [(0, 0), (2, 2)])
async def test_at_the_limit_the_model_is_asked_once_more_without_tools(
    limit: int, with_tools: int
) -> None:
    answers = [*[calls("t")] * with_tools, "What I have."]
    turn = Turn(await loop(max_iterations=limit), *answers, tools=[MockTool("t")])

    assert await turn.run() == "What I have."

    *before, last = turn.provider.requests
    assert len(before) == with_tools
    assert all(request.tools for request in before)
    assert last.tools is None
    assert last.messages[-1].content == LIMIT.notice
    assert ended(turn) == ("completed", "incomplete", "limit")
    assert turn.told("provider:request")[-1]["max_reached"] is True


@requirement("ORCH-15")
async def test_a_model_that_calls_tools_at_the_limit_all_the_same_is_refused() -> None:
    turn = Turn(await loop(max_iterations=1), calls("none"))

    assert await turn.run() == ""

    assert turn.results[-1] == "Not run: the step limit is reached."
    assert broken_pairs(turn.context.messages) == []
    assert ended(turn) == ("completed", "incomplete", "limit")


@requirement("ORCH-15")
async def test_a_limit_of_minus_one_is_none() -> None:
    turn = Turn(await loop(max_iterations=-1), *[calls("none")] * 60, "At last.")

    assert await turn.run() == "At last."
    assert len(turn.provider.requests) == 61


@requirement("ORCH-7", "ORCH-16")
@pytest.mark.parametrize(
    "error", [LLMError("overloaded", retryable=True, status_code=529), RuntimeError("a bug")]
)
async def test_whatever_a_provider_raises_is_announced_and_reaches_the_caller(
    error: Exception,
) -> None:
    turn = Turn(await loop(), error)

    with pytest.raises(type(error)) as caught:
        await turn.run()

    assert caught.value is error
    assert ended(turn) == ("error", "incomplete", "error")
    (told,) = turn.told("provider:error")
    assert told["error"] == {"type": type(error).__name__, "msg": str(error)}
    assert told["provider"] == "test"
    if isinstance(error, LLMError):
        assert (told["retryable"], told["status_code"]) == (True, 529)


async def test_what_a_response_carries_beside_its_content_is_stored() -> None:
    answer = response("Hello.").model_copy(update={"metadata": {"vendor": {"id": "r1"}}})

    async def say(_: ChatRequest) -> ChatResponse:
        return answer

    turn = Turn(await loop(), say)

    await turn.run()

    assert turn.context.messages[-1]["metadata"] == {"vendor": {"id": "r1"}}


@pytest.mark.parametrize("wanted", [True, False])
async def test_extended_thinking_is_asked_for_when_configured(wanted: bool) -> None:
    asked: list[dict[str, Any]] = []

    class Provider(ScriptedProvider):
        async def complete(self, request: ChatRequest, **options: Any) -> ChatResponse:
            asked.append(options)
            return response("Hello.")

    turn = Turn(await loop(extended_thinking=wanted))
    turn.provider = Provider()

    await turn.run()

    assert asked == [{"extended_thinking": True} if wanted else {}]


@requirement("ORCH-14")
def test_the_provider_is_the_preferred_one_or_the_lowest_priority() -> None:
    plain, low = SimpleNamespace(), SimpleNamespace(priority=5)
    configured = SimpleNamespace(config={"priority": 1})
    providers = {"plain": plain, "low": low, "configured": configured}

    assert select_provider(providers, "plain") == ("plain", plain)
    assert select_provider(providers, "absent") == ("configured", configured)
    assert select_provider({"plain": plain, "low": low}, None) == ("low", low)
    assert select_provider({"a": plain, "b": SimpleNamespace(config=None)}, None)[0] == "a"
    assert select_provider({"zero": SimpleNamespace(priority=0), "low": low}, None)[0] == "zero"
    with pytest.raises(RuntimeError, match="No providers mounted"):
        select_provider({}, None)


@requirement("ORCH-19")
async def test_a_turn_that_is_cancelled_before_it_begins_asks_no_model() -> None:
    turn = Turn(await loop(), "Never.")
    called: list[str] = []
    turn.coordinator.cancellation.on_cancel(lambda: called.append("callback"))
    turn.coordinator.cancellation.request_graceful()

    assert await turn.run() == ""

    assert turn.provider.requests == []
    assert called == ["callback"]
    assert turn.told("cancel:requested")[0]["state"] == "graceful"
    assert ended(turn) == ("cancelled", "cancelled", "cancelled")


class Hanging(ScriptedProvider):
    """A provider that hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()

    async def complete(self, request: ChatRequest, **_: Any) -> ChatResponse:
        self.started.set()
        await asyncio.Event().wait()
        return response("Never.")


@requirement("ORCH-7", "ORCH-19")
async def test_a_cancellation_of_the_caller_goes_on_to_the_caller() -> None:
    turn = Turn(await loop())
    turn.provider = provider = Hanging()
    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await provider.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert ended(turn) == ("cancelled", "cancelled", "cancelled")


@requirement("ORCH-19")
async def test_a_cancellation_of_the_caller_reaches_it_after_a_graceful_request_too() -> None:
    """As when a person asks to stop, and the program loses its patience with the turn."""
    turn = Turn(await loop())
    turn.provider = provider = Hanging()
    async with asyncio.timeout(120):
        running = asyncio.create_task(turn.run())
        await provider.started.wait()
        turn.coordinator.cancellation.request_graceful()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert ended(turn) == ("cancelled", "cancelled", "cancelled")


@requirement("ORCH-19")
async def test_an_interrupted_turn_runs_the_callbacks_too_and_says_that_it_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed, heard, called = Installer(monkeypatch), Listener(), list[str]()
    installed.provider = provider = Hanging()
    plan = installed.basics()
    installed.object("loop-test", "orchestrator", await loop())
    session = AmplifierSession(plan)
    session.coordinator.hooks.register("cancel:requested", heard)
    token = session.coordinator.cancellation
    token.on_cancel(lambda: called.append("callback"))

    async with asyncio.timeout(120), session:
        running = asyncio.create_task(session.execute("hi"))
        await provider.started.wait()
        token.request_immediate()
        assert await running == ""

    assert called == ["callback"]
    assert heard.data["state"] == "immediate"


@requirement("ORCH-18")
async def test_the_same_repair_is_announced_once() -> None:
    turn = Turn(await loop(), "One.", "Two.")
    orphan: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [{"id": "lost"}]}
    turn.context.messages = [orphan, {"role": "user", "content": "after the crash"}]

    await turn.run()
    await turn.run()

    assert [data["repairs"] for data in turn.told("context:repaired")] == [
        [{"kind": "answered", "tool_call_id": "lost"}]
    ]


@requirement("ORCH-20")
async def test_a_recorder_can_stand_in_for_the_hooks() -> None:
    recorder, context = EventRecorder(), MockContextManager()

    answer = await BasicLoop().execute(
        prompt="hi",
        context=context,
        providers={"test": ScriptedProvider("Hello.")},
        tools={},
        hooks=recorder,
    )

    assert answer == "Hello."
    assert recorder.events[0] == ("execution:start", {"prompt": "hi"})
    assert [message["role"] for message in context.messages] == ["user", "assistant"]
