"""A provider's calls: announced, retried, limited in time, priced, and watched for cache misses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from amplifier_core.llm_errors import (
    InvalidRequestError,
    LLMError,
    LLMTimeoutError,
    NetworkError,
    RateLimitError,
    StreamError,
)
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    Degradation,
    Message,
    TextBlock,
    Usage,
)
from amplifier_core.models import HookResult
from amplifier_core.testing import EventRecorder
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_kit.calls.call_costs import PartialAnswer
from amplifier_kit.calls.model_calls import Call, ModelCalls
from amplifier_kit.calls.prefix import Prefix
from amplifier_kit.calls.settings import ProviderSettings
from amplifier_kit.history_repair import Repair

REQUEST = ChatRequest(messages=[Message(role="user", content="hi")])
QUICK: dict[str, Any] = {"min_retry_delay_seconds": 0, "max_retries": 2}


class VendorError(Exception):
    pass


class App:
    """What a provider sees of a session: hooks, and a display."""

    def __init__(self) -> None:
        self.hooks = EventRecorder()
        self.display_system = self
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{level}: {source}: {message}")


class Attempts:
    """Gives its outcomes in turn: raises the errors and returns the rest."""

    def __init__(self, *outcomes: ChatResponse | BaseException) -> None:
        self.outcomes = list(outcomes)
        self.streams: list[BlockStream | None] = []

    async def __call__(self, stream: BlockStream | None) -> ChatResponse:
        self.streams.append(stream)
        if stream is not None:
            await stream.start(0, "text")
            await stream.delta(0, "a")
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def response(**usage: int) -> ChatResponse:
    counts = {"input_tokens": 1_000, "output_tokens": 10, "total_tokens": 1_010, **usage}
    reported = Usage.model_validate(counts)
    return ChatResponse(content=[TextBlock(text="ok")], usage=reported)


def call(*, streaming: bool = False, **fields: Any) -> Call:
    return Call(model="m", request=REQUEST, parameters={}, streaming=streaming, **fields)


def translate(error: BaseException, model: str | None) -> LLMError | None:
    return InvalidRequestError(str(error)) if isinstance(error, VendorError) else None


Calls = Callable[..., ModelCalls]


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def calls(app: App) -> Calls:
    def build(**settings: Any) -> ModelCalls:
        return ModelCalls("p", ProviderSettings(**{**QUICK, **settings}), app, translate, None)

    return build


async def test_a_call_is_announced_before_and_after(app: App, calls: Calls) -> None:
    await calls().make(call(), Attempts(response()))

    (asked_name, asked), (answered_name, answered) = app.hooks.events
    assert (asked_name, answered_name) == ("llm:request", "llm:response")
    assert (asked["provider"], asked["model"], asked["message_count"]) == ("p", "m", 1)
    assert answered["usage"] == {"input_tokens": 1_000, "output_tokens": 10, "cost_usd": None}
    assert answered["status"] == "ok"
    assert asked["request_id"] == answered["request_id"]


async def test_repairs_and_rate_limits_are_announced(app: App, calls: Calls) -> None:
    made = call(repairs=[Repair("answered", "a")], rate_limits={"requests_remaining": 3})

    await calls().make(made, Attempts(response()))

    [(_, repaired)] = app.hooks.get_events("provider:tool_sequence_repaired")
    assert repaired["repairs"] == [{"kind": "answered", "tool_call_id": "a"}]
    [(_, answered)] = app.hooks.get_events("llm:response")
    assert answered["rate_limits"] == {"requests_remaining": 3}


async def test_raw_events_hold_the_parameters_without_secrets(app: App, calls: Calls) -> None:
    made = Call("m", REQUEST, {"top_p": 1, "api_key": "sk-secret"}, streaming=False)

    await calls(raw=True).make(made, Attempts(response()))

    (_, asked), (_, answered) = app.hooks.events
    assert asked["raw"]["top_p"] == 1
    assert "sk-secret" not in str(asked)
    assert answered["raw"]["content"][0]["text"] == "ok"


async def test_a_passing_failure_is_tried_again(app: App, calls: Calls) -> None:
    attempts = Attempts(StreamError("cut"), ConnectionRefusedError("nobody"), response())

    answer = await calls().make(call(), attempts)

    assert answer.content == response().content
    retries = [data for _, data in app.hooks.get_events("provider:retry")]
    assert [(each["attempt"], each["error_type"]) for each in retries] == [
        (1, "StreamError"), (2, "NetworkError"),
    ]  # fmt: skip
    assert "warning: provider-p: cut; trying again in 0.0 s (1 of 2)" in app.lines


async def test_nothing_is_tried_again_when_a_hook_denies_the_retry(app: App, calls: Calls) -> None:
    class Denying(EventRecorder):
        async def emit(self, event: str, data: dict[str, Any] | None) -> HookResult:
            heard = await super().emit(event, data)
            return HookResult(action="deny") if event == "provider:retry" else heard

    app.hooks = Denying()
    attempts = Attempts(RateLimitError("slow down"), response())

    with pytest.raises(RateLimitError, match="slow down"):
        await calls(**QUICK).make(call(), attempts)

    assert len(attempts.outcomes) == 1


async def test_the_last_failure_leaves_with_its_cause(app: App, calls: Calls) -> None:
    refused = [ConnectionRefusedError(f"nobody {n}") for n in range(3)]

    with pytest.raises(NetworkError) as caught:
        await calls().make(call(), Attempts(*refused))

    assert caught.value.__cause__ is refused[-1]
    [(_, answered)] = app.hooks.get_events("llm:response")
    assert (answered["status"], answered["error"]["type"]) == ("error", "NetworkError")


async def test_the_vendors_own_errors_are_translated_first(calls: Calls) -> None:
    with pytest.raises(InvalidRequestError, match="odd") as caught:
        await calls().make(call(), Attempts(VendorError("odd")))

    assert isinstance(caught.value.__cause__, VendorError)


async def test_a_mistake_of_our_own_leaves_unchanged_and_is_announced(
    app: App, calls: Calls
) -> None:
    mistake = KeyError("choices")

    with pytest.raises(KeyError) as caught:
        await calls().make(call(), Attempts(mistake))

    assert caught.value is mistake
    [(_, answered)] = app.hooks.get_events("llm:response")
    assert answered["error"]["type"] == "KeyError"


@pytest.mark.parametrize("asked", [200.0, float("inf")])
async def test_nobody_waits_longer_than_the_limit(calls: Calls, asked: float) -> None:
    error = RateLimitError("slow down", retry_after=asked)

    with pytest.raises(RateLimitError) as caught:
        await calls(max_retry_after_seconds=100).make(call(), Attempts(error))

    assert caught.value is error
    assert not error.retryable


async def test_an_answer_that_takes_too_long_is_left(calls: Calls) -> None:
    async def forever(_: BlockStream | None) -> ChatResponse:
        await asyncio.Event().wait()
        return response()

    async with asyncio.timeout(120):
        with pytest.raises(LLMTimeoutError, match=r"took longer than 0\.01 s"):
            await calls(timeout_seconds=0.01, max_retries=0).make(call(), forever)


async def test_a_timeout_of_the_transport_is_not_called_the_whole_answers(calls: Calls) -> None:
    attempts = Attempts(TimeoutError("connecting took too long"))

    with pytest.raises(LLMTimeoutError, match="connecting took too long"):
        await calls(timeout_seconds=None, max_retries=0).make(call(), attempts)


async def test_each_attempt_has_a_stream_of_its_own(app: App, calls: Calls) -> None:
    attempts = Attempts(StreamError("cut"), response())

    await calls().make(call(streaming=True), attempts)

    first, second = attempts.streams
    assert first is not None
    assert second is not None
    assert first.request_id != second.request_id
    [(_, aborted)] = app.hooks.get_events("llm:stream_aborted")
    assert aborted["request_id"] == first.request_id


async def test_a_caller_who_leaves_is_announced_and_not_translated(app: App, calls: Calls) -> None:
    with pytest.raises(asyncio.CancelledError):
        await calls().make(call(streaming=True), Attempts(asyncio.CancelledError()))

    [(_, aborted)] = app.hooks.get_events("llm:stream_aborted")
    assert aborted["error"]["type"] == "CancelledError"
    assert app.hooks.get_events("provider:retry") == []


PARTIAL = PartialAnswer(Usage(input_tokens=9, output_tokens=1, total_tokens=10), 5, "estimated")


async def test_what_a_cancelled_call_used_is_announced(app: App, calls: Calls) -> None:
    made = call()

    async def attempt(stream: BlockStream | None) -> ChatResponse:
        made.partial = PARTIAL
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await calls().make(made, attempt)

    [(_, told)] = app.hooks.get_events("provider:call_cancelled")
    assert told["provider"] == "p"
    assert PartialAnswer.from_record(told) == PARTIAL


async def test_what_an_attempt_used_that_failed_does_not_count_for_the_next(
    app: App, calls: Calls
) -> None:
    """One that took too long is cancelled too, but was charged before the next one began."""
    made = call()
    outcomes: list[BaseException] = [TimeoutError("too long"), asyncio.CancelledError()]

    async def attempt(stream: BlockStream | None) -> ChatResponse:
        if len(outcomes) == 2:
            made.partial = PARTIAL
        raise outcomes.pop(0)

    with pytest.raises(asyncio.CancelledError):
        await calls().make(made, attempt)

    assert len(app.hooks.get_events("provider:retry")) == 1
    assert app.hooks.get_events("provider:call_cancelled") == []


@pytest.mark.parametrize(
    ("configured", "metadata", "expected"),
    [(True, None, True), (True, {"stream": False}, False), (True, {"stream": True}, True),
     (False, None, False), (False, {"stream": True}, False)],
)  # fmt: skip
def test_an_answer_is_streamed_unless_somebody_says_no(
    calls: Calls, configured: bool, metadata: dict[str, Any] | None, expected: bool
) -> None:
    request = REQUEST.model_copy(update={"metadata": metadata})

    assert calls(use_streaming=configured).wants_stream(request) is expected


async def test_costs_add_up_and_the_unknown_is_not_zero(calls: Calls) -> None:
    unknown = calls()
    priced = calls(pricing={"input": "2", "output": "10"})

    assert (await unknown.make(call(), Attempts(response()))).usage == response().usage
    for _ in range(3):
        await priced.make(call(), Attempts(response()))

    assert unknown.cost() is None
    assert priced.cost() == {"cost_usd": str(3 * Decimal("0.0021"))}


async def test_an_answer_without_usage_has_no_price(app: App, calls: Calls) -> None:
    priced = calls(pricing={"input": "2", "output": "10"})

    answer = await priced.make(call(), Attempts(ChatResponse(content=[])))

    assert (answer.usage, priced.cost()) == (None, None)
    [(_, answered)] = app.hooks.get_events("llm:response")
    assert answered["usage"] == {}


async def test_a_shortfall_is_announced_each_time_and_shown_once(app: App, calls: Calls) -> None:
    lost = Degradation(requested="a stop", actual="nothing", reason="no such thing")
    made = calls()

    answers = [await made.make(call(shortfalls=[lost]), Attempts(response())) for _ in range(2)]

    assert [answer.degradation for answer in answers] == [lost, lost]
    announced = app.hooks.get_events("provider:degraded")
    assert [data["requested"] for _, data in announced] == ["a stop", "a stop"]
    assert app.lines == ["warning: provider-p: asked for a stop, got nothing: no such thing"]


async def test_a_shortfall_found_on_the_way_is_told_too(app: App, calls: Calls) -> None:
    foreseen = Degradation(requested="a stop", actual="nothing", reason="no such thing")
    found = Degradation(requested="a picture", actual="a text", reason="cannot be read")
    made = call(shortfalls=[foreseen])

    async def attempt(_: BlockStream | None) -> ChatResponse:
        made.shortfalls.append(found)
        return response()

    answer = await calls().make(made, attempt)

    assert answer.degradation is not None
    assert answer.degradation.requested == "a stop; a picture"
    announced = app.hooks.get_events("provider:degraded")
    assert [data["requested"] for _, data in announced] == ["a stop", "a picture"]


def test_a_question_beside_a_call_fails_as_a_call_does(calls: Calls) -> None:
    made, mistake = calls(), KeyError("data")

    with pytest.raises(NetworkError) as caught, made.translated("m"):
        raise ConnectionRefusedError("nobody")
    with pytest.raises(KeyError) as unchanged, made.translated():
        raise mistake

    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert unchanged.value is mistake


async def test_a_cache_that_missed_is_announced(app: App, calls: Calls) -> None:
    made = calls()
    for system, read in (("one", 5_000), ("two", 0)):
        prefix = Prefix([("options", system)], [], [])
        usage = response(input_tokens=6_000, cache_read_tokens=read)
        await made.make(call(prefix=prefix), Attempts(usage))

    [(_, missed)] = app.hooks.get_events("provider:cache_miss")
    assert (missed["segment"], missed["module"]) == ("options", "provider-p")
    assert (missed["expected_tokens"], missed["cache_read_tokens"]) == (5_888, 0)
    assert app.lines == [
        "info: provider-p: prompt cache missed: options changed (by provider-p); "
        "read 0 of about 5888 cached tokens"
    ]


async def test_calls_work_without_anybody_who_listens() -> None:
    alone = ModelCalls("p", ProviderSettings(**QUICK), object(), translate, None)

    answer = await alone.make(call(streaming=True), Attempts(StreamError("cut"), response()))

    assert answer.content == response().content
