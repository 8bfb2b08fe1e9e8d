"""Tests of whole turns: the warning, the end, and an answer that can be read."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from amplifier_core import ChatRequest, ChatResponse, llm_errors
from amplifier_core.message_models import TextBlock, ToolCallBlock, Usage
from amplifier_core.testing import wait_for
from amplifier_kit.calls.model_calls import Call, ModelCalls
from amplifier_kit.calls.settings import ProviderSettings


async def test_the_model_gives_the_last_answer_from_what_is_kept_for_it(build: Any) -> None:
    harness = await build(["dig"], steps=3)

    answer = await harness.session.execute("dig for gold")

    assert answer == "Here is what I have."
    assert len(harness.vendor.requests) == 3
    last = harness.vendor.requests[-1]
    assert last.tools is None
    assert "say what is still open" in last.messages[-1].content
    assert harness.told("budget:exhausted")[0]["answered_by"] == "model"


async def test_a_last_answer_never_calls_tools(build: Any) -> None:
    harness = await build(steps=1, final_answer_reserve="0.05")

    async def stubborn(request: ChatRequest, **kwargs: Any) -> ChatResponse:
        harness.vendor.requests.append(request)
        return ChatResponse(content=[ToolCallBlock(id="1", name="dig", input={})])

    harness.vendor.complete = stubborn
    harness.ledger.root.limit = harness.ledger.root.limit._replace(steps=Decimal(2))
    harness.ledger.root.used = harness.ledger.root.used._replace(steps=Decimal(1))

    answer = await harness.session.execute("dig for gold")

    assert len(harness.vendor.requests) == 1
    assert "No further model call was made" in answer
    assert "dig for gold" in answer
    assert harness.told("budget:exhausted")[0]["answered_by"] == "budget"


async def test_a_last_answer_that_fails_is_replaced(build: Any) -> None:
    harness = await build(["dig"], steps=2)

    def answer_to(request: ChatRequest) -> Any:
        return ["dig"] if request.tools else llm_errors.RateLimitError("slow down")

    harness.vendor.answer = answer_to

    answer = await harness.session.execute("dig for gold")

    assert "2 of 2 model calls" in answer
    assert "Here is what I have." in answer


async def test_a_turn_ends_readably_when_dollars_are_used_up(build: Any) -> None:
    harness = await build(["dig"], usd="0.3")

    answer = await harness.session.execute("dig for gold")

    assert answer == "Here is what I have."
    assert 0 < harness.vendor.billed <= Decimal("0.3")
    assert harness.vendor.billed == harness.spent


async def test_a_turn_ends_readably_when_tokens_are_used_up(build: Any) -> None:
    harness = await build(["dig"], tokens=30_000, final_answer_reserve=0)

    answer = await harness.session.execute("dig for gold")

    assert "tokens" in answer
    assert "Still open: dig for gold" in answer
    used = sum(harness.vendor.true_usage(each).total_tokens for each in harness.vendor.requests)
    assert 0 < used <= 30_000


async def test_a_call_that_outlasts_the_time_is_ended(build: Any) -> None:
    harness = await build(seconds=0.05, final_answer_reserve=0)
    harness.vendor.gate.clear()

    async with asyncio.timeout(120):
        answer = await harness.session.execute("dig for gold")

    assert "seconds" in answer
    assert "dig for gold" in answer
    assert harness.ledger.root.held.steps == 0


async def test_a_timeout_of_the_provider_is_not_taken_for_the_end_of_the_budget(build: Any) -> None:
    harness = await build(TimeoutError("the socket's"), seconds=60)

    with pytest.raises(TimeoutError, match="socket"):
        await harness.session.execute("hello")


async def test_four_fifths_are_announced_once_and_the_model_is_reminded(build: Any) -> None:
    harness = await build(["dig"], steps=6)

    await harness.session.execute("dig for gold")

    assert [each["agent"] for each in harness.told("budget:warning")] == ["root"]
    assert any("83% of the budget is used" in line for line in harness.screen.lines)
    texts = [str(request.messages[-1].content) for request in harness.vendor.requests]
    assert ["Come to an end soon" in text for text in texts[:5]] == [False] * 5
    assert "say what is still open" in texts[5]


async def test_a_reminder_is_not_stored(build: Any) -> None:
    harness = await build(["dig"], steps=6, warn_at=0.3)

    await harness.session.execute("dig for gold")

    stored = await harness.coordinator.get("context").get_messages()
    assert "Come to an end soon" not in str(stored)
    assert "Come to an end soon" in str(harness.vendor.requests[3].messages[-1].content)


class RetryingVendor:
    """A provider made of the kit's model calls, whose attempts break off until they succeed."""

    name = "vendor"

    def __init__(self, coordinator: Any, failures: list[llm_errors.LLMError]) -> None:
        settings = ProviderSettings(min_retry_delay_seconds=0)
        self.failures = failures
        self.attempts = 0
        self._calls = ModelCalls("vendor", settings, coordinator, self._translate, None)

    def _translate(self, error: BaseException, model: str | None) -> None:
        return None

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        async def attempt(stream: Any) -> ChatResponse:
            self.attempts += 1
            if self.failures:
                raise self.failures.pop(0)
            usage = Usage(input_tokens=2_000, output_tokens=10, total_tokens=2_010)
            return ChatResponse(content=[TextBlock(text="At last.")], usage=usage)

        return await self._calls.make(Call("big", request, {}, streaming=False), attempt)


async def test_an_attempt_that_broke_off_is_charged_before_the_next(build: Any) -> None:
    harness = await build(usd=1)
    retrying = RetryingVendor(harness.coordinator, [llm_errors.StreamError("broke off")])
    harness.vendor.complete = retrying.complete

    answer = await harness.session.execute("hello")

    assert answer == "At last."
    assert retrying.attempts == 2
    assert harness.spent > 15 * Decimal(4_096) / 1_000_000
    assert harness.ledger.root.used.steps == 1
    assert harness.ledger.root.held.usd == 0


async def test_an_attempt_that_cost_nothing_is_not_charged(build: Any) -> None:
    harness = await build(usd=1)
    error = llm_errors.ProviderUnavailableError("overloaded", retry_after=0)
    retrying = RetryingVendor(harness.coordinator, [error])
    harness.vendor.complete = retrying.complete

    await harness.session.execute("hello")

    assert harness.spent == Decimal("0.00615")


async def test_no_further_attempt_is_made_that_does_not_fit(build: Any) -> None:
    harness = await build(usd="0.1", final_answer_reserve=0)
    retrying = RetryingVendor(harness.coordinator, [llm_errors.StreamError("broke off")])
    harness.vendor.complete = retrying.complete

    answer = await harness.session.execute("dig for gold")

    assert retrying.attempts == 1
    assert "USD" in answer
    assert "dig for gold" in answer
    assert harness.spent <= Decimal("0.1")
    assert harness.ledger.root.held.usd == 0


@pytest.mark.parametrize("overlay", [{}, {"hooks": []}], ids=["with", "without"])
async def test_a_retry_in_a_child_with_or_without_the_module_is_charged_once(
    build: Any, overlay: dict[str, Any]
) -> None:
    harness = await build(usd=1)
    child = await harness.child("child", overlay)
    retrying = RetryingVendor(child.coordinator, [llm_errors.StreamError("broke off")])
    harness.vendor.complete = retrying.complete

    await child.session.execute("hello")

    worst = 15 * Decimal(4_096) / 1_000_000
    assert worst < harness.spent < 2 * worst


async def test_a_cancelled_call_is_charged_as_the_worst_case(build: Any) -> None:
    harness = await build(usd=1)
    harness.vendor.gate.clear()

    async with asyncio.timeout(120):
        turn = asyncio.create_task(harness.session.execute("hello"))
        assert await wait_for(lambda: bool(harness.vendor.requests), timeout=120)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert harness.spent > 15 * Decimal(4_096) / 1_000_000
    assert harness.ledger.root.held.usd == 0
