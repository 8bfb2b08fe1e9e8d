"""What a stream yields: the events of one turn, in the order in which they happen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

__all__ = [
    "Done",
    "Event",
    "Question",
    "Restarted",
    "TextDelta",
    "ThinkingDelta",
    "ToolEnded",
    "ToolStarted",
    "Usage",
]

OutputT = TypeVar("OutputT", default=str)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of what the model thinks before it answers, where a vendor shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The model calls a tool."""

    name: str
    input: Mapping[str, Any]
    call_id: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool call has ended; `error` is None if it succeeded."""

    name: str
    output: Any
    error: str | None
    call_id: str


@dataclass(frozen=True, slots=True)
class Question:
    """A guard asks for permission; the turn waits until `answer` is called with an option.

    A question that is not answered is denied when its time is up.
    """

    prompt: str
    options: tuple[str, ...]
    answer: Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Restarted:
    """Of durable turns: a worker was lost, and the pieces it showed since its last call are void.

    The next worker shows them again.
    """


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one turn; those read from a cache are part of `input_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Done(Generic[OutputT]):
    """The end of a turn.

    `cost_usd` is None if the cost of a model call is unknown. `stop_reason` is `completed`, or why
    the answer is incomplete. `text` is the answer as the model wrote it.
    """

    output: OutputT
    usage: Usage
    cost_usd: Decimal | None
    stop_reason: str
    text: str = field(kw_only=True)


Event: TypeAlias = TextDelta | ThinkingDelta | ToolStarted | ToolEnded | Question | Done[OutputT]
