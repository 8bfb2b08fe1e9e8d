"""The fault suite of providers."""

from __future__ import annotations

from typing import Any

from amplifier_conformance.peers import hurried, refused_network, silent_peer
from amplifier_conformance.rules import require
from amplifier_conformance.suite import FaultTests
from amplifier_conformance.watch import (
    Outcome,
    cancel_in_mid_call,
    end_at_deadline,
    outcome_at_large,
    outcome_of,
)
from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, TextBlock, ToolCall

__all__ = ["ProviderFaultTests"]

_CALL: dict[str, Any] = {"type": "tool_call", "id": "call-1", "name": "lookup", "input": {"q": "x"}}
_RESULT: dict[str, Any] = {"type": "tool_result", "tool_call_id": "call-1", "output": "found"}
_PICTURE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
_THOUGHTS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "let me see", "signature": "signed"},
    {"type": "redacted_thinking", "data": "sealed"},
    {"type": "reasoning", "content": [], "summary": []},
]
_ALL_BLOCKS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "look"}, {"type": "image", "source": _PICTURE}],
    },
    {"role": "assistant", "content": [*_THOUGHTS, {"type": "text", "text": "so"}, _CALL]},
    {"role": "tool", "tool_call_id": "call-1", "content": [_RESULT]},
    {"role": "developer", "content": "Continue."},
]
_ORPHAN: list[dict[str, Any]] = [
    {"role": "user", "content": "look it up"},
    {
        "role": "assistant",
        "content": [_CALL],
        "tool_calls": [{"id": "call-1", "tool": "lookup", "arguments": {"q": "x"}}],
    },
    {"role": "user", "content": "and?"},
]
_RESPONSES = {
    "an empty one": ChatResponse(content=[]),
    "text": ChatResponse(content=[TextBlock(text="hello")]),
    "text and an empty list of calls": ChatResponse(content=[TextBlock(text="hi")], tool_calls=[]),
    "a call": ChatResponse(
        content=[], tool_calls=[ToolCall(id="call-1", name="lookup", arguments={"q": "x"})]
    ),
}


def _request(*messages: dict[str, Any]) -> ChatRequest:
    return ChatRequest(messages=[Message(**message) for message in messages])


def _hello() -> ChatRequest:
    return _request({"role": "user", "content": "Hello"})


class ProviderFaultTests(FaultTests):
    """Inherit this in the tests of a provider. No vendor is ever reached."""

    async def test_a_cancelled_call_ends(self, provider_module: Any) -> None:
        """A call is cancelled while the vendor is silent."""
        async with silent_peer():
            call = provider_module.complete(_hello())
            limits = {"after": self.start_seconds, "within": self.cancel_seconds}
            if not await cancel_in_mid_call("provider", call, **limits):
                self.nothing_to_judge("the provider does not wait for a vendor")

    async def test_a_slow_peer_does_not_outlast_the_deadline(self, provider_module: Any) -> None:
        """The vendor accepts the call and never answers."""
        async with silent_peer():
            call = provider_module.complete(_hello())
            limits = {"deadline": self.start_seconds, "within": self.cancel_seconds}
            if not await end_at_deadline("provider", call, **limits):
                self.nothing_to_judge("the provider does not wait for a vendor")

    async def test_an_unreachable_vendor_is_an_llm_error(self, provider_module: Any) -> None:
        """There is no network."""
        await self._survive("provider.errors", provider_module, _hello())

    async def test_an_orphaned_tool_call_does_not_crash(self, provider_module: Any) -> None:
        """A crash left a tool call without its result in the history."""
        await self._survive("provider.orphan", provider_module, _request(*_ORPHAN))

    async def test_every_kind_of_block_is_accepted(self, provider_module: Any) -> None:
        """The history comes from a session with another provider."""
        await self._survive("provider.blocks", provider_module, _request(*_ALL_BLOCKS))

    async def test_a_large_request_is_answered_or_refused(self, provider_module: Any) -> None:
        """A message has 50 MB."""
        with refused_network(), hurried():
            outcome = await outcome_at_large(
                lambda size: provider_module.complete(
                    _request({"role": "user", "content": "x" * size})
                ),
                self.patience_seconds,
            )
        require("provider.large", _is_an_end(outcome), str(outcome))

    async def test_wrong_types_are_refused(self, provider_module: Any) -> None:
        """The request is not a ChatRequest."""
        for wrong in (None, "Hello", 7, {"messages": "Hello"}):
            if not await self._survive("provider.types", provider_module, wrong):
                return

    async def test_tool_calls_are_parsed_from_every_response(self, provider_module: Any) -> None:
        """A response may have nothing in it, text or calls."""
        for what, response in _RESPONSES.items():
            calls: Any = provider_module.parse_tool_calls(response)
            fits = isinstance(calls, list) and all(isinstance(each, ToolCall) for each in calls)  # pyright: ignore[reportUnknownVariableType] - that is what is asked
            require("provider.parse", fits, f"given {what}, it returned {calls!r}")

    async def _survive(self, rule: str, provider: Any, request: Any) -> bool:
        """Call without a network; the call may fail only with an LLMError."""
        with refused_network(), hurried():
            outcome = await outcome_of(provider.complete(request), self.patience_seconds)
        # A provider may retry for longer than the suite waits.
        if not outcome.ended:
            self.nothing_to_judge(f"still trying after {self.patience_seconds:g} s")
        return require(rule, _is_an_end(outcome), str(outcome))


def _is_an_end(outcome: Outcome) -> bool:
    return isinstance(outcome.error, LLMError) or isinstance(outcome.value, ChatResponse)
