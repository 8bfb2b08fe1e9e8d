"""What a conversation consists of, as a person sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ToolState: TypeAlias = Literal["waiting", "running", "done", "failed", "denied", "interrupted"]
Level: TypeAlias = Literal["info", "warning", "error"]


@dataclass
class Prompt:
    """What the person said; `steers` when it was said into a running turn."""

    text: str
    steers: bool = False


@dataclass
class Answer:
    """What the model said, or one finished block of it, as Markdown."""

    text: str


@dataclass
class Thinking:
    """What the model thought before it said something."""

    text: str


@dataclass
class ToolRun:
    """One call of a tool; `number` is by what the person can ask for all of its output."""

    number: int
    call_id: str
    name: str
    arguments: Any
    state: ToolState = "running"
    seconds: float | None = None
    summary: str = ""
    output: str = ""


@dataclass
class Notice:
    """A line from a module or from the app itself."""

    text: str
    level: Level = "info"
    source: str = ""


@dataclass
class Question:
    """What the person was asked, and the answer; None while there is none."""

    prompt: str
    options: list[str]
    decision: str | None = None


@dataclass
class Decision:
    """What became of the question before it."""

    text: str


@dataclass
class Ending:
    """How a turn ended, when that is worth a line."""

    text: str
    level: Level = "warning"


Item: TypeAlias = Prompt | Answer | Thinking | ToolRun | Notice | Question | Decision | Ending
