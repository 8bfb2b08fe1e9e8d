"""The fault suite of providers: each rule's test fails one that breaks it and passes a good one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_conformance import RULES
from amplifier_conformance import ProviderFaultTests as FaultTests
from amplifier_core import ChatResponse, LLMError, MockProvider
from amplifier_core.llm_errors import InvalidRequestError, NetworkError
from amplifier_core.testing import wait_for
from contract.broken_rules import ignore_cancellation, reported
from contract.requirements import requirement


class Suite(FaultTests):
    """The suite as a provider's author would inherit it, in a hurry."""

    __test__ = False

    start_seconds = 0.2
    cancel_seconds = 0.5
    patience_seconds = 5.0


class Provider:
    """A provider that waits for its vendor's answer; `fault` names the rule it breaks."""

    name = "planted"

    def __init__(self, fault: str = "") -> None:
        self._fault = fault
        self._background: list[asyncio.Task[Any]] = []

    async def complete(self, request: Any, **kwargs: Any) -> ChatResponse:
        if not hasattr(request, "messages"):
            if self._fault == "provider.types":
                raise AttributeError("no messages")
            raise InvalidRequestError("not a request")
        text = self._convert(request)
        try:
            return await self._ask(text)
        except OSError as error:
            if self._fault == "provider.errors":
                raise
            raise NetworkError("unreachable") from error
        except asyncio.CancelledError as error:
            if self._fault == "provider.slow_peer":
                raise LLMError("interrupted") from error
            raise

    def parse_tool_calls(self, response: ChatResponse) -> Any:
        if self._fault == "provider.parse":
            return response.tool_calls
        return list(response.tool_calls or [])

    def _convert(self, request: Any) -> str:
        dumped = [message.model_dump() for message in request.messages]
        text = str(dumped)
        answered = "'tool_call_id': 'call-1'" in text
        if self._fault == "provider.orphan" and "call-1" in text and not answered:
            raise KeyError("call-1")
        if self._fault == "provider.blocks" and "redacted_thinking" in text:
            raise ValueError("unknown block")
        if self._fault == "provider.large" and len(text) > 1_000_000:
            raise MemoryError
        return text

    async def _ask(self, text: str) -> ChatResponse:
        # As most clients do, try again a little later.
        try:
            reader, writer = await asyncio.open_connection("vendor.test", 443)
        except OSError:
            await asyncio.sleep(60)
            reader, writer = await asyncio.open_connection("vendor.test", 443)
        try:
            if self._fault == "provider.leftover":
                self._background.append(asyncio.create_task(asyncio.Event().wait()))
            if self._fault == "provider.cancel":
                await ignore_cancellation(0.9)
            else:
                await reader.read()
        finally:
            writer.close()
        return ChatResponse(content=[])


# The test that finds out, for each rule.
TESTS = {
    "provider.cancel": "test_a_cancelled_call_ends",
    "provider.slow_peer": "test_a_slow_peer_does_not_outlast_the_deadline",
    "provider.leftover": "test_a_cancelled_call_ends",
    "provider.errors": "test_an_unreachable_vendor_is_an_llm_error",
    "provider.orphan": "test_an_orphaned_tool_call_does_not_crash",
    "provider.blocks": "test_every_kind_of_block_is_accepted",
    "provider.parse": "test_tool_calls_are_parsed_from_every_response",
    "provider.large": "test_a_large_request_is_answered_or_refused",
    "provider.types": "test_wrong_types_are_refused",
}


@requirement("VALID-20")
@pytest.mark.parametrize("rule", TESTS)
async def test_a_provider_that_breaks_a_rule_fails_with_its_name(rule: str) -> None:
    with reported(rule):
        await getattr(Suite(), TESTS[rule])(Provider(rule))


@requirement("VALID-20")
@pytest.mark.parametrize("test", sorted(set(TESTS.values())))
async def test_a_good_provider_keeps_every_rule(test: str) -> None:
    await getattr(Suite(), test)(Provider())


def test_every_rule_of_providers_and_every_test_of_the_suite_is_proved() -> None:
    assert set(TESTS) == {rule for rule in RULES if rule.startswith("provider.")}
    assert set(TESTS.values()) == {name for name in dir(Suite) if name.startswith("test_")}


@pytest.mark.parametrize("test", [TESTS["provider.cancel"], TESTS["provider.slow_peer"]])
async def test_a_provider_that_asks_nobody_is_not_judged(test: str) -> None:
    with pytest.raises(pytest.skip.Exception, match="does not wait for a vendor"):
        await getattr(Suite(), test)(MockProvider())


async def test_a_provider_that_answers_without_a_vendor_passes() -> None:
    await Suite().test_an_unreachable_vendor_is_an_llm_error(MockProvider())


async def test_a_provider_that_never_gives_up_is_not_judged_and_is_cancelled() -> None:
    class Stubborn(Provider):
        ended = False

        async def complete(self, request: Any, **kwargs: Any) -> ChatResponse:
            try:
                await asyncio.Event().wait()
            finally:
                self.ended = True
            return ChatResponse(content=[])

    class Impatient(Suite):
        patience_seconds = 0.02

    stubborn = Stubborn()
    with pytest.raises(pytest.skip.Exception, match=r"still trying after 0.02 s"):
        await Impatient().test_an_unreachable_vendor_is_an_llm_error(stubborn)
    assert await wait_for(lambda: stubborn.ended, timeout=120)


async def test_calls_must_be_tool_calls() -> None:
    class Odd(Provider):
        def parse_tool_calls(self, response: ChatResponse) -> Any:
            return [call.model_dump() for call in response.tool_calls or []]

    with pytest.raises(AssertionError, match=r"^Rule provider\.parse.*given a call, it returned"):
        await Suite().test_tool_calls_are_parsed_from_every_response(Odd())
