"""Draw the items of a conversation with rich."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from amplifier_cli.question_pages import MOST_ROWS, question_text, signed_lines, signed_rows
from amplifier_cli.render.markdown import TerminalMarkdown
from amplifier_cli.render.pieces import Decision, Ending, Shown
from amplifier_cli.render.plain import duration
from amplifier_cli.render.tool_results import arguments_line, arguments_text, outcome_of
from amplifier_journal.readings.items import (
    Answer,
    Notice,
    Prompt,
    Question,
    Thinking,
    ToolCall,
)
from amplifier_sandbox.visible_text import visible

MARKS = {
    "waiting": ("?", "waiting"),
    "running": ("●", "prompt.mark"),
    "done": ("✓", "done"),
    "failed": ("✗", "failed"),
    "denied": ("⊘", "failed"),
    "interrupted": ("■", "warning"),
}
_FAILURE_LINES = 3
_DIFF_LINES = 16
_QUESTION_KEPT = 80
_SIGNS = {"": "", "?": "bold", "+": "added", "-": "removed"}
_TIGHT = (ToolCall, Notice, Ending)


class Hanging:
    """A body whose first line is prefixed with one text, and the others with another."""

    def __init__(
        self, body: RenderableType, first: str, rest: str = "", style: str = "none"
    ) -> None:
        self._body = body
        self._first = first
        self._style = style
        self._rest = rest or " " * len(first)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the body, narrower by the prefix."""
        style = console.get_style(self._style)
        inner = options.update(width=max(1, options.max_width - len(self._first)))
        lead = self._first
        for line in console.render_lines(self._body, inner, pad=False):
            yield Segment(lead, style)
            yield from line
            yield Segment.line()
            lead = self._rest


class _QuestionRows:
    """The lines of a question: none is cut, and continued rows are marked as such."""

    def __init__(self, lines: list[str]) -> None:
        self._text = "\n".join(lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows; those of the first line are bold, those of a diff have its colours."""
        for row, sign in signed_rows(self._text, options.max_width):
            yield Text(row, _SIGNS[sign], no_wrap=True, overflow="ignore", end="\n")


class ToolLine:
    """One call on one line at any width: mark, tool, arguments, outcome."""

    def __init__(self, call: ToolCall, mark: str | None, seconds: float | None) -> None:
        self._call = call
        self._mark = mark
        self._seconds = seconds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the line; the arguments are shortened first, then the summary."""
        call = self._call
        outcome = outcome_of(call)
        mark, style = MARKS[outcome.state]
        head = Text.assemble((self._mark or mark, style), " ", (visible(call.name), "tool"))
        seconds = call.seconds if self._seconds is None else self._seconds
        facts = [duration(seconds)] if seconds is not None else []
        facts.append(f"#{call.number}")
        tail = Text(" · ".join(facts), "faint")
        between = 4 + (3 if outcome.summary else 0)
        room = max(0, options.max_width - head.cell_len - tail.cell_len - between)
        about = Text(arguments_line(call.arguments), no_wrap=True)
        is_bad = outcome.state in ("failed", "denied")
        summary = Text(outcome.summary, "failed" if is_bad else "faint")
        # Long arguments leave the summary two thirds of the line: the outcome matters more.
        summary.truncate(max(room - about.cell_len, room * 2 // 3), overflow="ellipsis")
        about.truncate(room - summary.cell_len, overflow="ellipsis")
        line = Text("  ").join(part for part in (head, about) if part.plain)
        line.append("  ")
        if summary.plain:
            line.append_text(summary).append(" · ", "faint")
        line.append_text(tail)
        line.truncate(options.max_width, overflow="ellipsis")
        yield line


def draw(item: Shown, *, expanded: bool = False, asked: str = "") -> RenderableType:
    """Return the drawing of a finished item; `asked` is the question that was shown before it."""
    if isinstance(item, ToolCall):
        return _draw_call(item, expanded, asked)
    return _DRAWINGS[type(item)](item, expanded)


def needs_gap(before: Shown | None, item: Shown) -> bool:
    """Whether an empty line separates two items."""
    if before is None or isinstance(item, Decision):
        return False
    return not (isinstance(before, _TIGHT) and isinstance(item, _TIGHT))


def draw_running(
    call: ToolCall, *, mark: str, seconds: float | None, tail: str, rows: int
) -> RenderableType:
    """Return a running call with the end of its output so far."""
    if tail.strip():
        lines = tail.rstrip("\n").split("\n")[-rows:]
    else:
        lines = []
    shown = [Text(line, "faint", no_wrap=True, overflow="ellipsis") for line in lines]
    return Group(ToolLine(call, mark, seconds), *(Hanging(each, "  ") for each in shown))


def _draw_prompt(item: Prompt, expanded: bool) -> RenderableType:
    mark = "» " if item.steers else "› "
    return Hanging(Text(visible(item.text), "prompt"), mark, style="prompt.mark")


def _draw_answer(item: Answer, expanded: bool) -> RenderableType:
    return TerminalMarkdown(item.text)


def _draw_thinking(item: Thinking, expanded: bool) -> RenderableType:
    return Hanging(Text(visible(item.text.strip()), "faint"), "┆ ", "┆ ", "faint")


def _draw_call(item: ToolCall, expanded: bool, asked: str) -> RenderableType:
    line = ToolLine(item, None, None)
    outcome = outcome_of(item)
    if expanded:
        given = arguments_text(item.arguments)
        came = outcome.output.rstrip("\n")
        if outcome.diff:
            came = came.partition("\n")[0]
        return Group(
            line,
            *([Hanging(Text(visible(given), "faint"), "  ")] if given else []),
            Hanging(Text(came or "(no output)"), "  │ ", "  │ ", "faint"),
            *_draw_diff(outcome.diff, len(outcome.diff)),
        )
    # Not again what the user has just been asked about.
    if outcome.diff and not set(outcome.diff) <= set(asked.split("\n")):
        return Group(line, *_draw_diff(outcome.diff, _DIFF_LINES))
    if outcome.state not in ("failed", "interrupted"):
        return line
    shown = [each for each in outcome.output.split("\n") if each.strip()][-_FAILURE_LINES:]
    if " ".join(shown).startswith(outcome.summary):
        return line
    texts = (Text(each, "faint", no_wrap=True, overflow="ellipsis") for each in shown)
    return Group(line, *(Hanging(text, "  ") for text in texts))


def _draw_diff(lines: tuple[str, ...], most: int) -> Iterator[RenderableType]:
    for line, sign in signed_lines(lines[:most]):
        yield Hanging(Text(line, _SIGNS[sign], no_wrap=True, overflow="ellipsis"), "")
    if len(lines) > most:
        yield Text(f"    {len(lines) - most} more lines: Ctrl-O", "faint")


def _draw_notice(item: Notice, expanded: bool) -> RenderableType:
    source = visible(item.source).removeprefix("hook:")
    source = f"{source}: " if source else ""
    mark = {"info": "· ", "warning": "! ", "error": "✗ "}[item.level]
    style = item.level
    return Hanging(Text.assemble((source, "faint"), (visible(item.text), style)), mark, style=style)


def _draw_question(item: Question, expanded: bool) -> RenderableType:
    """Prefix every line with a bar, so that none can imitate the terminal's own output."""
    lines = question_text(item.prompt).split("\n")
    # Pages are never longer: this shortens old questions only, which nobody can answer.
    if len(lines) > MOST_ROWS:
        left_out = len(lines) - 2 * _QUESTION_KEPT
        notice = f"[{left_out} LINES ARE NOT SHOWN HERE]"
        lines = [*lines[:_QUESTION_KEPT], notice, *lines[-_QUESTION_KEPT:]]
    return Hanging(_QuestionRows(lines), "┃ ", "┃ ", "question")


def _draw_decision(item: Decision, expanded: bool) -> RenderableType:
    return Hanging(Text(visible(item.text), "bold"), "┗ ", style="question")


def _draw_ending(item: Ending, expanded: bool) -> RenderableType:
    return Hanging(Text(visible(item.text), item.level), "■ ", style=item.level)


_DRAWINGS: dict[type[Any], Callable[[Any, bool], RenderableType]] = {
    Prompt: _draw_prompt,
    Answer: _draw_answer,
    Thinking: _draw_thinking,
    Notice: _draw_notice,
    Question: _draw_question,
    Decision: _draw_decision,
    Ending: _draw_ending,
}
