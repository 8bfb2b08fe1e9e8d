"""The fault suite of context managers."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from typing import Any

from amplifier_conformance.rules import require
from amplifier_conformance.suite import FaultTests
from amplifier_conformance.watch import (
    Outcome,
    cancel_in_mid_call,
    outcome_at_large,
    outcome_of,
)

__all__ = ["ContextFaultTests"]

_BUDGET_TOKENS = 2_000
# Generous: estimates range from one to five characters per token, and JSON syntax counts too.
_LONGEST_REQUEST = _BUDGET_TOKENS * 8
_ADDED_AT_ONCE = 50
_PAIRS = 60
# Close enough together that one of them cuts between a call and its result.
_BUDGETS = range(1_000, 2_000, 25)

_ORPHAN: list[dict[str, Any]] = [
    {"role": "user", "content": "look it up"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call-orphan", "tool": "lookup", "arguments": {}}],
    },
    {"role": "user", "content": "and?"},
]
_WRONG: tuple[Any, ...] = (
    None,
    7,
    "text",
    {"role": 7, "content": {"a": 1}},
    {"role": "tool", "content": None},
)


def _conversation() -> list[dict[str, Any]]:
    """Return a conversation of many tool calls, each with its result."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for number in range(_PAIRS):
        call = {"id": f"call-{number}", "tool": "lookup", "arguments": {"number": number}}
        messages += [
            {"role": "user", "content": f"question {number} " + "x" * 200},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call-{number}", "content": "y" * 200},
            {"role": "assistant", "content": f"answer {number} " + "z" * 200},
        ]
    return messages


def _size(messages: Any) -> int:
    return len(json.dumps(messages, default=str))


class ContextFaultTests(FaultTests):
    """Inherit this in the tests of a context manager."""

    async def test_a_large_message_fits_the_budget_or_is_refused(self, context_module: Any) -> None:
        """A tool returned 50 MB."""
        outcome = await outcome_at_large(
            lambda size: self._size_for_request(context_module, size), self.patience_seconds
        )
        # Refusing is fine: the loop gets the error, instead of a vendor's refusal.
        refused = isinstance(outcome.error, Exception)
        self._fits(outcome, "50 MB in one message", refused=refused)

    async def test_a_long_conversation_fits_the_budget(self, context_module: Any) -> None:
        """The conversation is longer than the model can read."""
        await self._fill(context_module, _conversation())
        outcome = await outcome_of(self._request(context_module), self.patience_seconds)
        outcome.value = _size(outcome.value)
        self._fits(outcome, f"{4 * _PAIRS} messages")

    async def test_pairs_stay_together(self, context_module: Any) -> None:
        """A call is left out together with its result."""
        await self._fill(context_module, _conversation())
        for budget in _BUDGETS:
            messages = await context_module.get_messages_for_request(token_budget=budget)
            calls = {call["id"] for each in messages for call in each.get("tool_calls") or ()}
            results = {each["tool_call_id"] for each in messages if each.get("role") == "tool"}
            lonely = ", ".join(sorted(calls ^ results))
            require("context.pairs", not lonely, f"at {budget} tokens {lonely} was alone")

    async def test_what_is_stored_stays_whole(self, context_module: Any) -> None:
        """Reading the messages for a request changes nothing."""
        await self._fill(context_module, _conversation())
        before = copy.deepcopy(await context_module.get_messages())
        await self._request(context_module)
        after = await context_module.get_messages()
        found = f"{len(before)} messages became {len(after)}, or others"
        require("context.view", after == before, found)

    async def test_a_request_is_the_callers_own(self, context_module: Any) -> None:
        """A loop appends to the list that it got."""
        await self._fill(context_module, _conversation()[:5])
        before = copy.deepcopy(await context_module.get_messages())
        request = await context_module.get_messages_for_request()
        request.append({"role": "user", "content": "ephemeral"})
        require("context.shared", await context_module.get_messages() == before, "it did")

    async def test_an_orphaned_tool_call_does_not_crash(self, context_module: Any) -> None:
        """A crash left a tool call without its result in the history."""
        await self._fill(context_module, _ORPHAN)
        outcome = await outcome_of(
            context_module.get_messages_for_request(token_budget=_BUDGET_TOKENS),
            self.patience_seconds,
        )
        require("context.orphan", isinstance(outcome.value, list), str(outcome))

    async def test_wrong_types_leave_it_usable(self, context_module: Any) -> None:
        """An invalid message may be refused, and the next one is stored."""
        await context_module.clear()
        for wrong in _WRONG:
            # Any exception is a valid refusal.
            with contextlib.suppress(Exception):
                await context_module.add_message(wrong)
        outcome = await outcome_of(self._still_works(context_module), self.patience_seconds)
        require("context.types", outcome.value is True, f"afterwards {outcome}")

    async def test_messages_added_at_once_are_all_stored(self, context_module: Any) -> None:
        """Tools that run in parallel report in parallel."""
        await context_module.clear()
        texts = {f"message {number}" for number in range(_ADDED_AT_ONCE)}
        await asyncio.gather(
            *(context_module.add_message({"role": "user", "content": text}) for text in texts)
        )
        stored = {message.get("content") for message in await context_module.get_messages()}
        require("context.parallel", texts <= stored, f"{len(texts - stored)} are missing")

    async def test_a_cancelled_call_ends(self, context_module: Any) -> None:
        """The turn is cancelled while something is stored."""
        call = context_module.add_message({"role": "user", "content": "interrupted"})
        # Cancelled after its first step, because storing a message usually takes no time.
        judged = await cancel_in_mid_call("context", call, after=0.0, within=self.cancel_seconds)
        outcome = await outcome_of(self._still_works(context_module), self.patience_seconds)
        require("context.types", outcome.value is True, f"after a cancellation {outcome}")
        if not judged:
            self.nothing_to_judge("storing a message does not wait for anything")

    async def _fill(self, context: Any, messages: list[dict[str, Any]]) -> None:
        await context.clear()
        # Copies: a context may keep and change the messages, and tests share `_ORPHAN`.
        for message in messages:
            await context.add_message(copy.deepcopy(message))

    async def _request(self, context: Any) -> list[dict[str, Any]]:
        return await context.get_messages_for_request(token_budget=_BUDGET_TOKENS)

    async def _size_for_request(self, context: Any, size: int) -> int:
        await context.clear()
        await context.add_message({"role": "user", "content": "x" * size})
        return _size(await self._request(context))

    def _fits(self, outcome: Outcome, what: str, *, refused: bool = False) -> None:
        small = outcome.ended and outcome.error is None and outcome.value <= _LONGEST_REQUEST
        size = f"it returned {outcome.value} characters"
        if outcome.ended and outcome.error is None:
            shown = size
        else:
            shown = str(outcome)
        found = f"given {what} and {_BUDGET_TOKENS} tokens, {shown}"
        require("context.budget", refused or small, found)

    async def _still_works(self, context: Any) -> bool:
        await context.add_message({"role": "user", "content": "still here"})
        messages = await self._request(context)
        return "still here" in str(messages)
