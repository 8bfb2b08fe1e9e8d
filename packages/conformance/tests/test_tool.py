"""The fault suite of tools: each rule's test fails a tool that breaks it and passes a good one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from amplifier_conformance import RULES
from amplifier_conformance import ToolFaultTests as FaultTests
from amplifier_conformance.tool import wrong_inputs
from amplifier_core.models import ToolResult
from contract.broken_rules import ignore_cancellation, reported
from contract.requirements import requirement


class Suite(FaultTests):
    """The suite as a tool's author would inherit it, in a hurry."""

    __test__ = False

    start_seconds = 0.2
    cancel_seconds = 0.5
    patience_seconds = 5.0
    slow_input = {"text": "slow"}


class Tool:
    """A tool that waits for ever when the text is `slow`; `fault` names the rule it breaks."""

    name = "planted"
    description = "A planted tool."
    input_schema: Any = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "count": {"type": ["integer", "null"]}},
    }

    def __init__(self, fault: str = "") -> None:
        self._fault = fault
        self._busy = False
        self._background: list[asyncio.Task[None]] = []

    async def execute(self, input: Any) -> Any:
        if self._fault == "tool.no_dict":
            input.get("text")
        text = input.get("text", "") if isinstance(input, dict) else ""  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType] - anything may come
        if not isinstance(text, str):
            return self._wrong_type()
        if self._fault == "tool.large" and len(text) > 1_000_000:
            raise ValueError("too long")
        if text == "slow":
            return await self._wait()
        if self._fault == "tool.parallel":
            await self._alone()
        return ToolResult(success=bool(text), output=text[:100], error={"message": "no text"})

    def _wrong_type(self) -> ToolResult:
        if self._fault == "tool.types":
            raise TypeError("text must be a string")
        odd = {"value": object()} if self._fault == "tool.readable" else "text must be a string"
        return ToolResult(success=False, output=odd)

    async def _wait(self) -> ToolResult:
        if self._fault == "tool.blocking":
            _hold(0.6)
        if self._fault == "tool.leftover":
            self._background.append(asyncio.create_task(_for_ever()))
        try:
            await (ignore_cancellation(0.9) if self._fault == "tool.cancel" else _for_ever())
        except asyncio.CancelledError:
            if self._fault != "tool.slow_peer":
                raise
        return ToolResult(success=False, output="interrupted")

    async def _alone(self) -> None:
        if self._busy:
            raise RuntimeError("one call at a time")
        self._busy = True
        await asyncio.sleep(0)
        self._busy = False


async def _for_ever() -> None:
    await asyncio.Event().wait()


def _hold(seconds: float) -> None:
    time.sleep(seconds)


# The test that finds out, for each rule.
TESTS = {
    "tool.cancel": "test_a_cancelled_call_ends",
    "tool.slow_peer": "test_a_slow_peer_does_not_outlast_the_deadline",
    "tool.leftover": "test_a_cancelled_call_ends",
    "tool.types": "test_wrong_types_come_back_as_results",
    "tool.readable": "test_wrong_types_come_back_as_results",
    "tool.parallel": "test_calls_at_the_same_time_do_not_meet",
    "tool.large": "test_large_input_comes_back_as_a_result",
    "tool.no_dict": "test_input_that_is_no_dict_comes_back_as_a_result",
    "tool.blocking": "test_the_event_loop_stays_free",
}


@requirement("VALID-20")
@pytest.mark.parametrize("rule", TESTS)
async def test_a_tool_that_breaks_a_rule_fails_with_its_name(rule: str) -> None:
    with reported(rule):
        await getattr(Suite(), TESTS[rule])(Tool(rule))


@requirement("VALID-20")
@pytest.mark.parametrize("test", sorted(set(TESTS.values())))
async def test_a_good_tool_keeps_every_rule(test: str) -> None:
    await getattr(Suite(), test)(Tool())


def test_every_rule_of_tools_and_every_test_of_the_suite_is_proved() -> None:
    assert set(TESTS) == {rule for rule in RULES if rule.startswith("tool.")}
    assert set(TESTS.values()) == {name for name in dir(Suite) if name.startswith("test_")}


@pytest.mark.parametrize("test", [TESTS["tool.cancel"], TESTS["tool.slow_peer"]])
async def test_a_call_that_ends_at_once_is_not_judged(test: str) -> None:
    class Quick(Suite):
        slow_input = None

    with pytest.raises(pytest.skip.Exception, match="set `slow_input`"):
        await getattr(Quick(), test)(Tool())


async def test_a_call_that_returns_instead_of_ending_fails() -> None:
    with pytest.raises(AssertionError, match="it returned ToolResult.$"):
        await Suite().test_a_cancelled_call_ends(Tool("tool.slow_peer"))


def test_wrong_inputs_never_have_a_type_that_the_schema_allows() -> None:
    class Typed(Tool):
        input_schema = {
            "properties": {
                "text": {"type": "string"},
                "ratio": {"type": "number"},
                "maybe": {"type": ["integer", "null"]},
                "anything": {},
                "odd": True,
            }
        }

    inputs = list(wrong_inputs(Typed()))

    assert inputs[0] == {}
    assert {"text": 7} in inputs
    assert {"ratio": "text", "maybe": "text"} in inputs
    assert {"text": None, "ratio": None} in inputs
    assert all("anything" not in each and "odd" not in each for each in inputs)


@pytest.mark.parametrize("schema", [None, {}, {"properties": []}])
def test_a_tool_without_a_schema_gets_no_input_at_all(schema: Any) -> None:
    tool = Tool()
    tool.input_schema = schema

    assert list(wrong_inputs(tool)) == [{}]
