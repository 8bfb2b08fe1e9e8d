"""The fault suite of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar

from amplifier_conformance.peers import refused_network, silent_peer
from amplifier_conformance.rules import require
from amplifier_conformance.suite import FaultTests
from amplifier_conformance.watch import (
    Outcome,
    cancel_in_mid_call,
    end_at_deadline,
    leave_nothing,
    loop_lag,
    outcome_at_large,
    outcome_of,
)
from amplifier_core.interfaces import input_schema_of
from amplifier_core.models import ToolResult

__all__ = ["ToolFaultTests"]

_CALLS_AT_ONCE = 20
_LONGEST_LAG_SECONDS = 0.5
_NO_DICTS: tuple[Any, ...] = (None, [], "text", 7)
_SAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 7,
    "number": 0.5,
    "boolean": True,
    "array": [1],
    "object": {"key": "value"},
    "null": None,
}


def _properties(tool: Any) -> dict[str, Any]:
    schema: Any = input_schema_of(tool)
    properties: Any = schema.get("properties") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] - untrusted schema
    return properties if isinstance(properties, dict) else {}  # pyright: ignore[reportUnknownVariableType] - as above


def _allowed(definition: Any) -> list[Any]:
    kinds: Any = definition.get("type") if isinstance(definition, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType] - untrusted schema
    return kinds if isinstance(kinds, list) else [kinds]  # pyright: ignore[reportUnknownVariableType] - as above


def wrong_inputs(tool: Any) -> Iterator[dict[str, Any]]:
    """Yield inputs in which every property has a type that its schema does not allow."""
    yield {}
    definitions = _properties(tool)
    for kind, value in _SAMPLES.items():
        # An integer is a valid number, and a property without a type may have any value.
        wrong = {
            name: value
            for name, definition in definitions.items()
            if kind not in (allowed := _allowed(definition))
            and None not in allowed
            and not (kind == "integer" and "number" in allowed)
        }
        if wrong:
            yield wrong


class ToolFaultTests(FaultTests):
    """Inherit this in the tests of a tool.

    `slow_input` is an input for which a call takes a while, preferably because it waits for a
    server: connections through Python's sockets are redirected to one that never answers. Without
    it, some rules cannot be checked.
    """

    slow_input: ClassVar[dict[str, Any] | None] = None

    async def test_a_cancelled_call_ends(self, tool_module: Any) -> None:
        """A call is cancelled while it waits."""
        async with silent_peer():
            call = tool_module.execute(self.slow_input or {})
            limits = {"after": self.start_seconds, "within": self.cancel_seconds}
            if not await cancel_in_mid_call("tool", call, **limits):
                self.nothing_to_judge("the call ended immediately; set `slow_input`")

    async def test_a_slow_peer_does_not_outlast_the_deadline(self, tool_module: Any) -> None:
        """A call waits for a server that never answers."""
        async with silent_peer():
            call = tool_module.execute(self.slow_input or {})
            limits = {"deadline": self.start_seconds, "within": self.cancel_seconds}
            if not await end_at_deadline("tool", call, **limits):
                self.nothing_to_judge("the call ended immediately; set `slow_input`")

    async def test_wrong_types_come_back_as_results(self, tool_module: Any) -> None:
        """The model gives values of the wrong types, or none at all."""
        for wrong in wrong_inputs(tool_module):
            outcome = await self._outcome(tool_module, wrong)
            found = f"given {wrong!r}, {outcome}"
            require("tool.types", isinstance(outcome.value, ToolResult), found)
            require("tool.readable", _is_readable(outcome.value), found)

    async def test_input_that_is_no_dict_comes_back_as_a_result(self, tool_module: Any) -> None:
        """A loop passes on arguments that are not an object."""
        for wrong in _NO_DICTS:
            outcome = await self._outcome(tool_module, wrong)
            found = f"given {wrong!r}, {outcome}"
            if not require("tool.no_dict", isinstance(outcome.value, ToolResult), found):
                return

    async def test_large_input_comes_back_as_a_result(self, tool_module: Any) -> None:
        """The model gives 50 MB of text."""
        names = [
            name
            for name, definition in _properties(tool_module).items()
            if "string" in _allowed(definition)
        ]
        with refused_network():
            outcome = await outcome_at_large(
                lambda size: tool_module.execute(dict.fromkeys(names, "x" * size)),
                self.patience_seconds,
            )
        require("tool.large", isinstance(outcome.value, ToolResult), str(outcome))

    async def test_calls_at_the_same_time_do_not_meet(self, tool_module: Any) -> None:
        """A loop runs several calls in parallel, and no task of them is left."""
        before = asyncio.all_tasks()
        calls = (self._outcome(tool_module, {}) for _ in range(_CALLS_AT_ONCE))
        for outcome in await asyncio.gather(*calls):
            require("tool.parallel", isinstance(outcome.value, ToolResult), str(outcome))
        await leave_nothing("tool", before, self.cancel_seconds)

    async def test_the_event_loop_stays_free(self, tool_module: Any) -> None:
        """Other sessions continue while a call runs."""
        longest = _LONGEST_LAG_SECONDS
        # A busy machine may delay the loop too, but hardly three times in a row.
        for _ in range(3):
            async with silent_peer(), loop_lag() as lags:
                await outcome_of(tool_module.execute(self.slow_input or {}), self.start_seconds)
            longest = max(lags)
            if longest < _LONGEST_LAG_SECONDS:
                return
        require("tool.blocking", False, f"it was held for {longest:.1f} s")

    async def _outcome(self, tool: Any, given: Any) -> Outcome:
        with refused_network():
            return await outcome_of(tool.execute(given), self.patience_seconds)


def _is_readable(result: Any) -> bool:
    try:
        return isinstance(result.get_serialized_output(), str)
    except (TypeError, ValueError, RecursionError):
        return False
