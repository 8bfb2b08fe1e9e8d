"""The fault suite of hook modules."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from amplifier_conformance.peers import refused_network, silent_peer
from amplifier_conformance.rules import require
from amplifier_conformance.suite import FaultTests
from amplifier_conformance.watch import (
    Outcome,
    cancel_in_mid_call,
    outcome_at_large,
    outcome_of,
)
from amplifier_core.models import HookResult

__all__ = ["HookFaultTests"]

_SAMPLE: dict[str, Any] = {
    "session_id": "test-session",
    "parent_id": None,
    "timestamp": "2026-01-01T00:00:00.000000+00:00",
    "prompt": "hello",
    "provider": "mock",
    "tool_name": "test_tool",
    "tool_call_id": "call-1",
    "tool_input": {"value": 1},
    "result": {"success": True, "output": "done", "error": None},
    "error": {"type": "ValueError", "msg": "planted"},
}
_WRONG_VALUES: tuple[Any, ...] = (None, 7, "text", [], {})


def _malformed() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "no field at all", {}
    for value in _WRONG_VALUES:
        yield f"{value!r} in every field", dict.fromkeys(_SAMPLE, value)


def _large(size: int) -> dict[str, Any]:
    return {**_SAMPLE, "result": {"success": True, "output": "x" * size, "error": None}}


class HookFaultTests(FaultTests):
    """Inherit this in the tests of a hook module.

    Handlers are called directly, each with its own data, because the registry would catch what
    they raise.
    """

    patience_seconds = 10.0

    async def test_malformed_data_is_survived(self, hook_cleanup: Any, coordinator: Any) -> None:
        """Events lack fields, or have values of other types than expected."""
        for event, handler in self._handlers(coordinator):
            for what, data in _malformed():
                outcome = await self._outcome(event, handler, data)
                found = f"on {event} with {what}, {outcome}"
                require("hook.malformed", outcome.ended and outcome.error is None, found)

    async def test_answers_are_understood(self, hook_cleanup: Any, coordinator: Any) -> None:
        """A handler answers with a HookResult, the dict of one, or None."""
        for event, handler in self._handlers(coordinator):
            outcome = await self._outcome(event, handler, _SAMPLE)
            require("hook.answer", _is_answer(outcome), f"on {event} {outcome}")

    async def test_a_cancelled_handler_ends(self, hook_cleanup: Any, coordinator: Any) -> None:
        """The turn is cancelled while a handler waits for a server."""
        judged = False
        async with silent_peer():
            for event, handler in self._handlers(coordinator):
                call = _call(handler, event, _SAMPLE)
                limits = {"after": self.start_seconds, "within": self.cancel_seconds}
                judged |= await cancel_in_mid_call("hook", call, **limits)
        if not judged:
            self.nothing_to_judge("no handler waits for anything")

    async def test_a_slow_peer_does_not_hold_the_turn(
        self, hook_cleanup: Any, coordinator: Any
    ) -> None:
        """A handler waits for a server that never answers."""
        async with silent_peer():
            for event, handler in self._handlers(coordinator):
                call = _call(handler, event, _SAMPLE)
                outcome = await outcome_of(call, self.patience_seconds)
                # One warning is enough: every other handler could take as long again.
                if not require("hook.slow_peer", outcome.ended, f"on {event} {outcome}"):
                    return

    async def test_large_data_is_survived(self, hook_cleanup: Any, coordinator: Any) -> None:
        """A tool returned 50 MB."""
        # A handler of many events is tried on the first of them only.
        once = {handler: event for event, handler in reversed(self._handlers(coordinator))}
        for handler, event in once.items():
            with refused_network():
                outcome = await outcome_at_large(
                    lambda size, handler=handler, event=event: _call(handler, event, _large(size)),
                    self.patience_seconds,
                )
            kept = outcome.ended and outcome.error is None
            if not require("hook.large", kept, f"on {event} {outcome}"):
                return

    async def test_the_cleanup_removes_the_handlers(
        self, hook_cleanup: Any, coordinator: Any
    ) -> None:
        """A session that ends removes the module's handlers."""
        removed = hook_cleanup() if callable(hook_cleanup) else None
        if inspect.isawaitable(removed):
            await removed
        await coordinator.cleanup()
        handlers = coordinator.hooks.list_handlers()
        left = dict.fromkeys(name for names in handlers.values() for name in names)
        require("hook.cleanup", not left, f"{', '.join(left)} stayed")

    def _handlers(self, coordinator: Any) -> list[tuple[str, Any]]:
        registered = list(coordinator.hooks.registered)
        if not registered:
            self.nothing_to_judge("no handler is registered at mount")
        return registered

    async def _outcome(self, event: str, handler: Any, data: dict[str, Any]) -> Outcome:
        with refused_network():
            return await outcome_of(_call(handler, event, data), self.patience_seconds)


async def _call(handler: Any, event: str, data: dict[str, Any]) -> Any:
    # As the registry does: every handler gets its own copy.
    answer = handler(event, copy.deepcopy(data))
    if inspect.isawaitable(answer):
        return await answer
    return answer


def _is_answer(outcome: Outcome) -> bool:
    if outcome.error is not None or isinstance(outcome.value, HookResult | None):
        return outcome.error is None
    try:
        return bool(HookResult.model_validate(outcome.value))
    except ValidationError:
        return False
