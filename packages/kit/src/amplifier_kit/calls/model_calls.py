"""A provider's calls: announced, retried, timed out, priced, and checked for cache misses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from amplifier_core import events
from amplifier_core.correlation import new_request_id
from amplifier_core.errors import error_text
from amplifier_core.llm_errors import LLMError, LLMTimeoutError
from amplifier_core.message_models import ChatRequest, ChatResponse, Degradation, Usage
from amplifier_core.redaction import redact_secrets
from amplifier_core.retry import retry_with_backoff
from amplifier_kit.calls.block_stream import STREAM_EVENTS, BlockStream
from amplifier_kit.calls.budget_notices import DEGRADED, joined
from amplifier_kit.calls.call_costs import PartialAnswer
from amplifier_kit.calls.failures import error_from_transport
from amplifier_kit.calls.prefix import Miss, Prefix, PrefixWatch
from amplifier_kit.calls.prices import price_table
from amplifier_kit.calls.settings import ProviderSettings
from amplifier_kit.history_repair import Repair
from amplifier_kit.notices import show
from amplifier_kit.valid_text import valid

CACHE_MISS = "provider:cache_miss"
CALL_CANCELLED = "provider:call_cancelled"
OWN_EVENTS = (*STREAM_EVENTS, CACHE_MISS, DEGRADED, CALL_CANCELLED)

_ANNOUNCED = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost_usd",
)

# Translates an exception of the vendor's SDK; None if it is not one. The second argument is the
# name of the model, or None for a request without one, such as a list of models.
Translate = Callable[[BaseException, str | None], LLMError | None]
# Makes one attempt; with a stream, it announces the answer as it arrives.
Attempt = Callable[[BlockStream | None], Awaitable[ChatResponse]]


@dataclass(slots=True)
class Call:
    """One call to be made."""

    model: str
    request: ChatRequest
    # What is sent over the wire, for `raw` events.
    parameters: dict[str, Any]
    streaming: bool
    prefix: Prefix | None = None
    repairs: list[Repair] = field(default_factory=list[Repair])
    # Filled by the attempt when the vendor reports them.
    rate_limits: dict[str, Any] = field(default_factory=dict[str, Any])
    # Filled by the attempt when it is cancelled after the vendor reported some usage.
    partial: PartialAnswer | None = None
    # What is done differently than asked; the attempt adds what only the answer shows.
    shortfalls: list[Degradation] = field(default_factory=list[Degradation])


class ModelCalls:
    """Makes the calls of one provider in one session."""

    def __init__(
        self,
        provider: str,
        settings: ProviderSettings,
        coordinator: Any,
        translate: Translate,
        price_vendor: str | None,
    ) -> None:
        self.provider = provider
        self._settings = settings
        self._coordinator = coordinator
        self._hooks = getattr(coordinator, "hooks", None)
        self._translate = translate
        # Public: a budget prices the calls by the same table.
        self.prices = price_table(coordinator)
        self.prices.take_provider(provider, price_vendor, settings.pricing)
        self._watch = PrefixWatch(coordinator, f"provider-{provider}")
        # None until a call was priced. After a call of unknown price it is not reported at all,
        # because a reader would take the sum for the whole cost.
        self._total: Decimal | None = None
        self._has_unpriced = False
        self._retry = settings.retry_config()
        # Messages that the user has seen, to show each of them once.
        self._shown: set[str] = set()

    def cost(self) -> dict[str, Any] | None:
        """Return what this session's calls cost so far, for the channel `session.cost`.

        None before the first call, and if the price of any call is unknown.
        """
        if self._total is None or self._has_unpriced:
            return None
        return {"cost_usd": str(self._total)}

    def wants_stream(self, request: ChatRequest) -> bool:
        """Whether an answer is to be announced as it arrives."""
        return self._settings.use_streaming and (request.metadata or {}).get("stream") is not False

    async def make(self, call: Call, attempt: Attempt) -> ChatResponse:
        """Make the call, with retries, and return its priced answer.

        Shortfalls are announced and become the answer's `degradation`.

        Raises:
            LLMError: the vendor or the transport failed. Anything else that the attempt raises
                is passed on unchanged.
        """
        facts = {"provider": self.provider, "model": call.model, "request_id": new_request_id()}
        await self._announce_request(call, facts)
        # Announced before the call too, because it may fail.
        foreseen = len(call.shortfalls)
        await self._admit(call.shortfalls, facts)
        started = time.monotonic()

        async def once() -> ChatResponse:
            return await self._once(call, attempt)

        async def on_retry(number: int, delay: float, error: LLMError) -> None:
            await self._announce_retry(facts, number, delay, error)

        try:
            response = await retry_with_backoff(once, self._retry, on_retry=on_retry)
        except asyncio.CancelledError:
            if call.partial is not None:
                await self._emit(CALL_CANCELLED, {**facts, **call.partial.record()})
            raise
        except Exception as error:
            failure = {"type": type(error).__name__, "msg": error_text(error)}
            outcome = {"status": "error", "error": failure, **_since(started)}
            await self._emit(events.LLM_RESPONSE, {**facts, **outcome})
            raise
        # Made valid where it enters: half a character in it would break every later request.
        priced = self._price(call, valid(response))
        await self._announce_response(call, facts, priced, started)
        await self._admit(call.shortfalls[foreseen:], facts)
        degradation = joined(call.shortfalls) or priced.degradation
        return priced.model_copy(update={"degradation": degradation})

    @contextmanager
    def translated(self, model: str | None = None) -> Generator[None]:
        """Translate exceptions to `LLMError`, for requests besides calls, such as model lists."""
        try:
            yield
        except Exception as raised:
            error = self._meaning(raised, model)
            if error is raised:
                raise
            raise error from raised

    def tell_once(self, line: str) -> None:
        """Show a message to the user, unless it was shown before."""
        if line not in self._shown:
            self._shown.add(line)
            show(self._coordinator, line, source=f"provider-{self.provider}")

    async def _once(self, call: Call, attempt: Attempt) -> ChatResponse:
        if call.streaming and self._hooks is not None:
            stream = BlockStream(self._hooks)
        else:
            stream = None
        limit = call.request.timeout or self._settings.timeout_seconds
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                return await attempt(stream)
        except BaseException as raised:
            # Also for a cancellation, which has to announce the end of the stream. A TimeoutError
            # may be the transport's own, so `expired` decides.
            if not isinstance(raised, asyncio.CancelledError):
                call.partial = None
            late = clock.expired() and isinstance(raised, TimeoutError)
            if late:
                error = self._too_late(call, limit)
            else:
                error = self._meaning(raised, call.model)
            if stream is not None:
                await stream.abort(error)
            if error is raised:
                raise
            raise error from raised

    def _too_late(self, call: Call, limit: float | None) -> LLMTimeoutError:
        message = f"the whole answer took longer than {limit} s"
        return LLMTimeoutError(message, provider=self.provider, model=call.model)

    def _meaning(self, raised: BaseException, model: str | None) -> BaseException:
        """Return the model error that an exception stands for, or the exception itself."""
        if not isinstance(raised, Exception):
            return raised
        if isinstance(raised, LLMError):
            translated = None
        else:
            translated = self._translate(raised, model)
        error = translated or error_from_transport(raised, provider=self.provider, model=model)
        if error is None:
            return raised
        asked = error.retry_after
        if asked is not None and asked > self._settings.max_retry_after_seconds:
            # Longer than we are configured to wait: let a failover or the user decide now.
            error.retryable = False
        return error

    def _price(self, call: Call, response: ChatResponse) -> ChatResponse:
        usage = response.usage
        if usage is None:
            self._has_unpriced = True
            return response
        cost = self.prices.cost_of(self.provider, call.model, usage)
        if cost is None:
            self._has_unpriced = True
        else:
            self._total = (self._total or Decimal(0)) + cost
        priced = usage.model_copy(update={"cost_usd": cost})
        return response.model_copy(update={"usage": priced})

    async def _announce_request(self, call: Call, facts: dict[str, Any]) -> None:
        if call.repairs:
            repairs = [repair._asdict() for repair in call.repairs]
            count = {"provider": self.provider, "repair_count": len(repairs), "repairs": repairs}
            await self._emit(events.PROVIDER_TOOL_SEQUENCE_REPAIRED, count)
        request = {**facts, "message_count": len(call.request.messages)}
        if self._settings.raw:
            request["raw"] = redact_secrets(call.parameters)
        await self._emit(events.LLM_REQUEST, request)

    async def _admit(self, shortfalls: Sequence[Degradation], facts: dict[str, Any]) -> None:
        """Announce what is done differently than asked: an event each time, a message once."""
        lost = joined(shortfalls)
        if lost is not None:
            await self._emit(DEGRADED, {**facts, **lost.model_dump()})
            self.tell_once(f"asked for {lost.requested}, got {lost.actual}: {lost.reason}")

    async def _announce_retry(
        self, facts: dict[str, Any], number: int, delay: float, error: LLMError
    ) -> None:
        limits = {"attempt": number, "max_retries": self._retry.max_retries, "delay": delay}
        failure = {"error_type": type(error).__name__, "error_message": error_text(error)}
        if await self._is_denied(events.PROVIDER_RETRY, {**facts, **limits, **failure}):
            # A budget does not pay for another attempt, or a guard failed and denied it.
            raise error
        count = f"{number} of {self._retry.max_retries}"
        line = f"{error_text(error)}; trying again in {delay:.1f} s ({count})"
        show(self._coordinator, line, source=f"provider-{self.provider}")

    async def _announce_response(
        self, call: Call, facts: dict[str, Any], response: ChatResponse, started: float
    ) -> None:
        outcome: dict[str, Any] = {"status": "ok", **_since(started)}
        outcome["usage"] = announced_usage(response.usage)
        if call.rate_limits:
            outcome["rate_limits"] = call.rate_limits
        if self._settings.raw:
            outcome["raw"] = redact_secrets(response.model_dump(mode="json", exclude_none=True))
        await self._emit(events.LLM_RESPONSE, {**facts, **outcome})
        if call.prefix is not None:
            miss = self._watch.judge(call.prefix, response.usage)
            if miss is not None:
                await self._announce_miss(facts, miss)

    async def _announce_miss(self, facts: dict[str, Any], miss: Miss) -> None:
        segment, module = miss.change or (None, None)
        counts = {
            "expected_tokens": miss.expected_tokens,
            "cache_read_tokens": miss.cache_read_tokens,
        }
        await self._emit(CACHE_MISS, {**facts, **counts, "segment": segment, "module": module})
        if segment:
            cause = f"{segment} changed (by {module})"
        else:
            cause = "nothing here changed"
        line = (
            f"prompt cache missed: {cause}; "
            f"read {miss.cache_read_tokens} of about {miss.expected_tokens} cached tokens"
        )
        show(self._coordinator, line, "info", source=f"provider-{self.provider}")

    async def _is_denied(self, event: str, data: dict[str, Any]) -> bool:
        if self._hooks is None:
            answer = None
        else:
            answer = await self._hooks.emit(event, data)
        return getattr(answer, "action", None) == "deny"

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        if self._hooks is not None:
            await self._hooks.emit(event, data)


def _since(started: float) -> dict[str, int]:
    return {"duration_ms": round((time.monotonic() - started) * 1_000)}


def announced_usage(usage: Usage | None) -> dict[str, Any]:
    """Return a usage with the keys that `llm:response` has, in their order."""
    if usage is None:
        return {}
    dumped = usage.model_dump()
    return {key: dumped[key] for key in _ANNOUNCED if key == "cost_usd" or dumped[key] is not None}
