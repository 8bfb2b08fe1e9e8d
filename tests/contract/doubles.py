"""Small doubles that several contract tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core import HookResult


class Listener:
    """A hook handler that keeps what it was called with and always gives the same answer."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.calls: list[tuple[str, Any]] = []

    async def __call__(self, event: str, data: Any) -> Any:
        self.calls.append((event, data))
        return self.answer

    @property
    def events(self) -> list[str]:
        """The names of the events heard, in order."""
        return [event for event, _ in self.calls]

    @property
    def data(self) -> Any:
        """The data of the last event heard."""
        return self.calls[-1][1]


def raising(error: BaseException) -> Callable[..., Any]:
    """Make an async callable that raises `error`, whatever it is called with."""

    async def fail(*_args: Any, **_kwargs: Any) -> None:
        raise error

    return fail


def deny(reason: str = "no", **fields: Any) -> HookResult:
    """Make a denial."""
    return HookResult(action="deny", reason=reason, **fields)


def modify(data: dict[str, Any] | None, **fields: Any) -> HookResult:
    """Make an answer that replaces the data."""
    return HookResult(action="modify", data=data, **fields)


def inject(text: str, **fields: Any) -> HookResult:
    """Make an answer that injects `text`."""
    return HookResult(action="inject_context", context_injection=text, **fields)


def ask(prompt: str | None = "May I?", **fields: Any) -> HookResult:
    """Make an answer that asks the user."""
    return HookResult(action="ask_user", approval_prompt=prompt, **fields)


class Display:
    """A display system that keeps what it was asked to show."""

    def __init__(self) -> None:
        self.shown: list[tuple[Any, ...]] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        """Keep the message."""
        self.shown.append((message, level, source))


class Approvals:
    """An approval system that gives one answer, or raises it, and keeps the questions."""

    def __init__(self, answer: Any = "Allow") -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> Any:
        """Keep the question and answer it."""
        self.asked.append((prompt, options, timeout, default))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Memory:
    """A context manager that keeps messages in a list."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def add_message(self, message: dict[str, Any]) -> None:
        """Append."""
        self.messages.append(message)

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any = None
    ) -> list[dict[str, Any]]:
        """Give a copy."""
        return list(self.messages)

    async def get_messages(self) -> list[dict[str, Any]]:
        """Give a copy."""
        return list(self.messages)

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace."""
        self.messages = list(messages)

    async def clear(self) -> None:
        """Forget."""
        self.messages = []


def broken_pairs(messages: list[Any]) -> list[str]:
    """Name every tool call without its result right behind it, and every result without a call."""
    faults: list[str] = []
    expected: set[str] = set()
    for message in [*map(_as_dict, messages), {"role": "end"}]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in expected:
                faults.append(f"orphaned result {message['tool_call_id']}")
            expected.discard(message["tool_call_id"])
            continue
        faults += [f"unanswered call {name}" for name in sorted(expected)]
        expected = _calls(message)
    return faults


def _as_dict(message: Any) -> dict[str, Any]:
    return message.model_dump() if hasattr(message, "model_dump") else message


def _calls(message: dict[str, Any]) -> set[str]:
    if message["role"] != "assistant":
        return set()
    content: Any = message.get("content")
    calls: list[Any] = [*(message.get("tool_calls") or [])]
    calls += content if isinstance(content, list) else []
    return {call["id"] for call in calls if call.get("type", "tool_call") != "text"}
