"""The behaviour that every context manager must have."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import pytest

__all__ = ["ContextBehaviorTests"]

_METHODS = ("add_message", "get_messages", "get_messages_for_request", "set_messages", "clear")
# The argument for optional, private methods of a context.
_A_NUMBER = 1_000


def _message(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def _texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [message.get("content") for message in messages]


async def _call(function: Any) -> Any:
    """Call a function of unknown signature, sync or async, with a number for each parameter."""
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    outcome = function(*(_A_NUMBER for _ in required))
    return await outcome if inspect.isawaitable(outcome) else outcome


@pytest.mark.asyncio
@pytest.mark.module_validation
class ContextBehaviorTests:
    """Inherit this in the tests of a context manager."""

    async def test_mount_succeeds(self, context_module: Any) -> None:
        """Mounting provides a context manager."""
        assert context_module is not None

    async def test_context_has_required_methods(self, context_module: Any) -> None:
        """All five methods are there."""
        missing = [name for name in _METHODS if not callable(getattr(context_module, name, None))]
        assert not missing, f"missing: {', '.join(missing)}"

    async def test_message_round_trip(self, context_module: Any) -> None:
        """What was added comes back."""
        await context_module.add_message(_message("round trip"))
        stored = await context_module.get_messages()
        assert ("user", "round trip") in [
            (each.get("role"), each.get("content")) for each in stored
        ]

    async def test_multiple_messages(self, context_module: Any) -> None:
        """Messages keep their order."""
        await context_module.clear()
        for text, role in (("one", "user"), ("two", "assistant"), ("three", "user")):
            await context_module.add_message(_message(text, role))
        assert _texts(await context_module.get_messages()) == ["one", "two", "three"]

    async def test_clear_removes_messages(self, context_module: Any) -> None:
        """After clear there is nothing."""
        await context_module.add_message(_message("to be forgotten"))
        await context_module.clear()
        assert await context_module.get_messages() == []

    async def test_get_messages_for_request_returns_messages(self, context_module: Any) -> None:
        """A request sees the conversation."""
        await context_module.add_message(_message("for the model"))
        messages = await context_module.get_messages_for_request()
        assert isinstance(messages, list)
        assert "for the model" in str(messages)  # pyright: ignore[reportUnknownArgumentType] - untrusted messages

    async def test_internal_should_compact_returns_bool(self, context_module: Any) -> None:
        """A context that decides about compaction decides with yes or no."""
        should_compact = getattr(context_module, "_should_compact", None)
        if should_compact is not None:
            assert isinstance(await _call(should_compact), bool)

    async def test_internal_compact_does_not_crash(self, context_module: Any) -> None:
        """A context that compacts can do it at any time."""
        for number in range(10):
            await context_module.add_message(_message(f"message {number}"))
        compact = getattr(context_module, "_compact_internal", None)
        if compact is not None:
            await _call(compact)
        assert isinstance(await context_module.get_messages(), list)

    async def test_add_invalid_message_does_not_crash(self, context_module: Any) -> None:
        """An invalid message is stored or refused, and the context continues to work."""
        for message in ({}, {"role": "user"}, {"content": "nobody's"}):
            with contextlib.suppress(ValueError, TypeError, KeyError):
                await context_module.add_message(message)
        assert isinstance(await context_module.get_messages(), list)

    async def test_get_messages_never_returns_none(self, context_module: Any) -> None:
        """Nothing stored is an empty list."""
        await context_module.clear()
        assert await context_module.get_messages() is not None
