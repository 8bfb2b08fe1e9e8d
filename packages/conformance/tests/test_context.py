"""The fault suite of contexts: each rule's test fails one that breaks it and passes a good one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_conformance import RULES
from amplifier_conformance import ContextFaultTests as FaultTests
from amplifier_core import ContextLengthError
from amplifier_core.history import unanswered_calls
from contract.broken_rules import reported
from contract.requirements import requirement


class Suite(FaultTests):
    """The suite as a context's author would inherit it, in a hurry."""

    __test__ = False

    start_seconds = 0.2
    cancel_seconds = 0.5
    patience_seconds = 10.0


class Context:
    """A memory that does everything right, except what `fault` names."""

    def __init__(self, fault: str = "", *, disk: float = 0.0) -> None:
        self._fault = fault
        self._disk = disk
        self.messages: list[Any] = []
        self._background: list[asyncio.Task[Any]] = []

    async def add_message(self, message: Any) -> None:
        if self._fault != "context.types" and not isinstance(message.get("role"), str):
            raise TypeError("a message has a role")
        if self._fault == "context.leftover":
            self._background.append(asyncio.create_task(asyncio.Event().wait()))
        if self._fault == "context.parallel":
            before = list(self.messages)
            await asyncio.sleep(0)
            self.messages = [*before, message]
            return
        try:
            # Stands for a file: a message is there when it is written.
            await asyncio.sleep(self._disk)
        except asyncio.CancelledError:
            if self._fault != "context.cancel":
                raise
        self.messages.append(message)

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any = None
    ) -> list[Any]:
        if not all(isinstance(message, dict) for message in self.messages):
            raise TypeError("a message is a dict")
        if self._fault == "context.orphan" and unanswered_calls(self.messages):
            raise KeyError("no result")
        if self._fault == "context.shared":
            return self.messages
        if token_budget is None or self._fault == "context.budget":
            return list(self.messages)
        kept = self._fitting(token_budget * 4)
        if self._fault == "context.view":
            self.messages = list(kept)
        return kept

    async def get_messages(self) -> list[Any]:
        return list(self.messages)

    async def clear(self) -> None:
        self.messages = []

    def _fitting(self, characters: int) -> list[Any]:
        """Return the newest messages that fit, a call always with its result."""
        kept: list[Any] = []
        group: list[Any] = []
        for message in reversed(self.messages):
            group.insert(0, message)
            if message.get("role") == "tool" and self._fault != "context.pairs":
                continue
            if len(str([*group, *kept])) > characters:
                break
            kept, group = [*group, *kept], []
        if not kept and self.messages:
            raise ContextLengthError("the last message alone is longer than the budget")
        return kept


# The test that finds out, for each rule.
TESTS = {
    "context.cancel": "test_a_cancelled_call_ends",
    "context.leftover": "test_a_cancelled_call_ends",
    "context.budget": "test_a_large_message_fits_the_budget_or_is_refused",
    "context.pairs": "test_pairs_stay_together",
    "context.view": "test_what_is_stored_stays_whole",
    "context.orphan": "test_an_orphaned_tool_call_does_not_crash",
    "context.types": "test_wrong_types_leave_it_usable",
    "context.parallel": "test_messages_added_at_once_are_all_stored",
    "context.shared": "test_a_request_is_the_callers_own",
}
FURTHER = {"context.budget": "test_a_long_conversation_fits_the_budget"}


def planted(test: str, fault: str = "") -> Context:
    return Context(fault, disk=0.02 if "cancelled" in test else 0.0)


@requirement("VALID-20")
@pytest.mark.parametrize(("rule", "test"), [*TESTS.items(), *FURTHER.items()])
async def test_a_context_that_breaks_a_rule_fails_with_its_name(rule: str, test: str) -> None:
    with reported(rule):
        await getattr(Suite(), test)(planted(test, rule))


@requirement("VALID-20")
@pytest.mark.parametrize("test", sorted({*TESTS.values(), *FURTHER.values()}))
async def test_a_good_context_keeps_every_rule(test: str) -> None:
    await getattr(Suite(), test)(planted(test))


def test_every_rule_of_contexts_and_every_test_of_the_suite_is_proved() -> None:
    tests = {*TESTS.values(), *FURTHER.values()}

    assert set(TESTS) == {rule for rule in RULES if rule.startswith("context.")}
    assert tests == {name for name in dir(Suite) if name.startswith("test_")}


async def test_a_context_that_waits_for_nothing_is_not_judged_by_cancelling() -> None:
    class Instant(Context):
        async def add_message(self, message: Any) -> None:
            self.messages.append(message)

    with pytest.raises(pytest.skip.Exception, match="does not wait for anything"):
        await Suite().test_a_cancelled_call_ends(Instant())


async def test_a_context_that_hangs_on_a_long_conversation_fails() -> None:
    class Hanging(Context):
        async def get_messages_for_request(
            self, token_budget: int | None = None, provider: Any = None
        ) -> list[Any]:
            await asyncio.Event().wait()
            return []

    class Impatient(Suite):
        patience_seconds = 0.05

    with pytest.raises(AssertionError, match=r"^Rule context\.budget.*tokens, it ran on\.$"):
        await Impatient().test_a_long_conversation_fits_the_budget(Hanging())


async def test_refusing_an_ordinary_conversation_is_not_fitting_it() -> None:
    class Refusing(Context):
        async def get_messages_for_request(
            self, token_budget: int | None = None, provider: Any = None
        ) -> list[Any]:
            raise ContextLengthError("too long")

    with pytest.raises(AssertionError, match=r"^Rule context\.budget.*it raised ContextLength"):
        await Suite().test_a_long_conversation_fits_the_budget(Refusing())
