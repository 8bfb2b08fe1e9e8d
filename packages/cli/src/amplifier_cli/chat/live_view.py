"""The live part of the screen: the streaming answer, running tools, questions, the queue."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal, TypeAlias

from rich.cells import get_character_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from amplifier_cli.question_pages import letters_of
from amplifier_cli.render.drawing import Hanging, draw, draw_running
from amplifier_cli.render.markdown import split_blocks, tail_of_block
from amplifier_cli.render.plain import one_line, program_output
from amplifier_journal.readings.items import Answer, Item, Question, Thinking, ToolCall

Keep = Callable[[dict[str, object]], None]
"""Writes words to the log; what it has not taken is not shown."""


class LiveText:
    """The streamed text of one block of an answer: received, then logged, then shown."""

    def __init__(self, kind: str, request_id: str, keep: Keep) -> None:
        self.kind = kind
        self.request_id = request_id
        self._keep = keep
        self._text = ""
        self._kept = 0
        self._printed = 0

    def add(self, fragment: str) -> None:
        """Add text; it is shown after the next `advance`."""
        self._text += fragment

    @property
    def text(self) -> str:
        """The text that is in the log."""
        return self._text[: self._kept]

    @property
    def tail(self) -> str:
        """The text that is in the log and not yet in the scrollback."""
        return self._text[self._printed : self._kept]

    def advance(self) -> list[Item]:
        """Log the complete words and return the finished blocks."""
        self._keep_until(_end_of_words(self._text))
        # Thinking goes to the scrollback as a whole, once it is finished.
        if self.kind == "thinking":
            return []
        finished, rest = split_blocks(self.tail)
        self._printed = self._kept - len(rest)
        return [Answer(block) for block in finished if block.strip()]

    def finish(self) -> list[Item]:
        """Log everything and return the rest."""
        self._keep_until(len(self._text))
        items = [] if self.kind == "thinking" else self.advance()
        tail = self.tail
        self._printed = self._kept
        if not tail.strip():
            return items
        if self.kind == "thinking":
            return [Thinking(tail)]
        return [*items, Answer(tail.strip("\n"))]

    def _keep_until(self, end: int) -> None:
        if end <= self._kept:
            return
        begins = {"begins": True} if self._kept == 0 else {}
        words = {"text": self._text[self._kept : end], **begins}
        self._keep({"request_id": self.request_id, "block_type": self.kind, **words})
        self._kept = end


def _end_of_words(text: str) -> int:
    """Return where the last complete word ends.

    Half a word may be half a secret, which redaction does not recognize. In scripts without
    blanks, every wide character counts as a word.
    """
    for end in range(len(text), 0, -1):
        last = text[end - 1]
        if last.isspace() or get_character_cell_size(last) > 1:
            return end
    return 0


FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1
_TAIL_LINES = 3
_EXPANDED_LINES = 15
_TAIL_KEPT = 8_000
_QUEUE_SHOWN = 5


@dataclass
class RunningTool:
    """A call that has no result yet."""

    call: ToolCall
    began: float = field(default_factory=monotonic)
    written: str = ""

    def write(self, text: str) -> None:
        """Add output of the tool; only its end is kept."""
        self.written = (self.written + text)[-_TAIL_KEPT:]


Entry: TypeAlias = Literal["message", "reason", "edit"]


@dataclass
class OpenQuestion:
    """A question that waits for the user."""

    question: Question
    until: float
    # None asks for the question to be shown again.
    answer: asyncio.Future[str | None]
    # The option that Enter takes.
    chosen: int
    # When it was first on the screen; earlier keys do not answer it.
    drawn_at: float | None = None
    # Whether the user can say why; the text that can be changed instead of denied.
    takes_reason: bool = False
    editable: str | None = None
    # What the input line is for: a message, the reason of a denial, or the changed text.
    entry: Entry = "message"
    reason: str = ""
    edited: str | None = None


class Scene:
    """The live part of the screen, and the state that it is drawn from."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called whenever there is something new to draw."""
        self.changed = changed
        self.text: LiveText | None = None
        self.tools: dict[str, RunningTool] = {}
        # By number, from 1.
        self.calls: dict[int, ToolCall] = {}
        self.questions: list[OpenQuestion] = []
        self.queue: list[str] = []
        self.is_held = False
        # Set by `Keys`: returns why a question cannot be answered right now, if so.
        self.obstacle: Callable[[], str] = lambda: ""
        self.expanded = False
        self.activity = ""
        self.since = monotonic()
        # When the user last sent a prompt or answered a question.
        self.attended_at = monotonic()

    def begin(self, activity: str) -> None:
        """Set the current activity; an empty text means idle."""
        if activity != self.activity:
            self.activity, self.since = activity, monotonic()
        self.changed()

    @property
    def elapsed(self) -> float:
        """Seconds since the current activity began."""
        return monotonic() - self.since

    def begin_call(self, call_id: str, name: str, arguments: object) -> None:
        """Show a call that has begun."""
        call = ToolCall(len(self.calls) + 1, call_id, name, arguments)
        self.calls[call.number] = call
        self.tools[call_id] = RunningTool(call)
        self.changed()

    def end_call(self, call: ToolCall) -> None:
        """Store a finished call, and remove it from the running ones."""
        self.tools.pop(call.call_id, None)
        self.calls[call.number] = call

    def advance(self) -> list[Item]:
        """Return the finished blocks of the answer, which can go to the scrollback."""
        if self.text is None:
            return []
        return self.text.advance()

    @property
    def frame(self) -> str:
        """The current frame of the spinner."""
        return FRAMES[int(monotonic() / _FRAME_SECONDS) % len(FRAMES)]

    @property
    def asks(self) -> OpenQuestion | None:
        """The open question, if there is one."""
        if self.questions:
            return self.questions[0]
        return None

    def note_drawn(self) -> bool:
        """Record that everything is on the screen; return whether a question is new there."""
        asks = self.asks
        if asks is None or asks.drawn_at is not None:
            return False
        asks.drawn_at = monotonic()
        return True

    def parts(self, rows: int) -> list[RenderableType]:
        """Return what to draw above the input line, oldest first."""
        parts: list[RenderableType] = []
        if self.text is not None and self.text.tail.strip():
            parts.append(_draw_tail(self.text, rows))
        tail_lines = _EXPANDED_LINES if self.expanded else _TAIL_LINES
        for each in self.tools.values():
            # A call without output while a question is open is probably the one it is about, which
            # is on the screen already.
            if self.asks is not None and not each.written:
                continue
            parts.append(
                draw_running(
                    replace(each.call, state="running"),
                    mark=self.frame,
                    seconds=monotonic() - each.began,
                    tail=program_output(each.written),
                    rows=tail_lines,
                )
            )
        if self.asks is not None:
            parts.append(self._draw_options(self.asks))
        if self.queue:
            parts.append(self._draw_queue())
        return parts

    def _draw_options(self, asks: OpenQuestion) -> RenderableType:
        if asks.entry != "message":
            return Hanging(Text(_ENTRIES[asks.entry], "question"), "┗ ", style="question")
        obstacle = self.obstacle()
        left = max(0.0, asks.until - monotonic())
        hints = [f"r {_REASON}"] if asks.takes_reason else []
        hints += ["e change the command"] if asks.editable is not None else []
        hints = [obstacle] if obstacle else hints
        hints += [] if math.isinf(left) else [f"{round(left)}s left"]
        hints += [f"{len(self.questions) - 1} more"] if len(self.questions) > 1 else []
        return Hanging(_Options(asks, hints, is_open=not obstacle), "┗ ", style="question")

    def _draw_queue(self) -> RenderableType:
        if self.is_held:
            head = "held: Enter sends, Esc takes back"
        else:
            head = "next"
        lines = [
            Hanging(
                Text.assemble(
                    (f"{head}  ", "faint"), one_line(text), no_wrap=True, overflow="ellipsis"
                ),
                "  ",
            )
            for head, text in zip(
                [head, *[" " * len(head)] * len(self.queue)],
                self.queue[:_QUEUE_SHOWN],
                strict=False,
            )
        ]
        left_out = len(self.queue) - _QUEUE_SHOWN
        if left_out > 0:
            lines.append(Hanging(Text(f"and {left_out} more", "faint"), "  "))
        return Group(*lines)


_REASON = "deny and say why"
_ENTRIES = {
    "reason": "Why not? Enter denies and sends it, Esc goes back.",
    "edit": "Change the command. Enter runs it, Esc goes back.",
}


class _Options:
    """The options of a question with their keys: in one line if they fit, else in several."""

    def __init__(self, asks: OpenQuestion, hints: list[str], *, is_open: bool) -> None:
        self._asks = asks
        self._hints = hints
        self._is_open = is_open

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the options, and a line of hints if there are any."""
        asked = self._asks.question.options
        letters = {number: letter for letter, number in letters_of(asked).items()}
        labels: list[Text] = []
        for number, option in enumerate(asked):
            key = f" ({letters[number]})" if number in letters else ""
            style = "reverse" if number == self._asks.chosen else "question"
            labels.append(Text(f" {number + 1} {one_line(option)}{key} ", style))
        # As many rows while keys do not answer yet, so that the question does not move.
        is_one_line = Text(" ").join(labels).cell_len <= options.max_width
        if not self._is_open:
            labels = [Text(f" {one_line(option)} ", "faint") for option in asked]
        if is_one_line:
            yield Text(" ").join(labels)
        else:
            yield from labels
        if self._hints:
            yield Text(f" {'   '.join(self._hints)}", "faint")


def _draw_tail(text: LiveText, rows: int) -> RenderableType:
    if text.kind == "thinking":
        return draw(Thinking("\n".join(text.tail.strip().split("\n")[-_TAIL_LINES:])))
    return draw(Answer(tail_of_block(text.tail.strip("\n"), rows)))
