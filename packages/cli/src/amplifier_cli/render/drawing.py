"""From an item of the conversation to what a terminal shows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from amplifier_cli.question_pages import question_text, rows_of
from amplifier_cli.render.items import (
    Answer,
    Decision,
    Ending,
    Item,
    Notice,
    Prompt,
    Question,
    Thinking,
    ToolRun,
)
from amplifier_cli.render.markdown import TerminalMarkdown, blocks_of
from amplifier_cli.render.plain import duration
from amplifier_cli.render.tool_results import arguments_line, arguments_text
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
_QUESTION_LINES = 200
_QUESTION_KEPT = 80
_TIGHT = (ToolRun, Notice, Ending)


class Hanging:
    """Something behind a mark: the first line after one text, the others after another."""

    def __init__(
        self, body: RenderableType, first: str, rest: str = "", style: str = "none"
    ) -> None:
        self._body = body
        self._first = first
        self._style = style
        self._rest = rest or " " * len(first)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the body, narrower by the mark."""
        style = console.get_style(self._style)
        inner = options.update(width=max(1, options.max_width - len(self._first)))
        lead = self._first
        for line in console.render_lines(self._body, inner, pad=False):
            yield Segment(lead, style)
            yield from line
            yield Segment.line()
            lead = self._rest


class _QuestionRows:
    """The lines of a question: none is cut, and what continues one does not look like another."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows; those of the first line stand out."""
        style = "bold"
        for line in self._lines:
            for row in rows_of(line, options.max_width):
                yield Text(row, style, no_wrap=True, overflow="ignore", end="\n")
            style = ""


class ToolLine:
    """One call on one line, however narrow: the mark, the tool, what about, how it went."""

    def __init__(self, run: ToolRun, mark: str | None, seconds: float | None) -> None:
        self._run = run
        self._mark = mark
        self._seconds = seconds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the line; the arguments give way first, then the summary."""
        run = self._run
        mark, style = MARKS[run.state]
        head = Text.assemble((self._mark or mark, style), " ", (visible(run.name), "tool"))
        seconds = run.seconds if self._seconds is None else self._seconds
        facts = [duration(seconds)] if seconds is not None else []
        facts.append(f"#{run.number}")
        tail = Text(" · ".join(facts), "faint")
        between = 4 + (3 if run.summary else 0)
        room = max(0, options.max_width - head.cell_len - tail.cell_len - between)
        about = Text(arguments_line(run.arguments), no_wrap=True)
        summary = Text(run.summary, "failed" if run.state in ("failed", "denied") else "faint")
        summary.truncate(max(room - about.cell_len, room * 2 // 3), overflow="ellipsis")
        about.truncate(room - summary.cell_len, overflow="ellipsis")
        line = Text("  ").join(part for part in (head, about) if part.plain)
        line.append("  ")
        if summary.plain:
            line.append_text(summary).append(" · ", "faint")
        line.append_text(tail)
        line.truncate(options.max_width, overflow="ellipsis")
        yield line


def draw(item: Item, *, expanded: bool = False) -> RenderableType:
    """Return what the terminal shows of an item that is finished."""
    return _DRAWINGS[type(item)](item, expanded)


def needs_gap(before: Item | None, item: Item) -> bool:
    """Whether an empty line stands between two items."""
    if before is None or isinstance(item, Decision):
        return False
    return not (isinstance(before, _TIGHT) and isinstance(item, _TIGHT))


def pieces(item: Item) -> list[Item]:
    """Return the parts in which an item is put on the screen: an answer goes block by block."""
    if isinstance(item, Answer):
        return [Answer(block) for block in blocks_of(item.text)]
    if isinstance(item, Question) and item.decision is not None:
        return [Question(item.prompt, item.options), Decision(item.decision)]
    return [item]


def draw_running(
    run: ToolRun, *, mark: str, seconds: float | None, tail: str, rows: int
) -> RenderableType:
    """Return a call that still runs, with the end of what it has written so far."""
    if tail.strip():
        lines = tail.rstrip("\n").split("\n")[-rows:]
    else:
        lines = []
    shown = [Text(line, "faint", no_wrap=True, overflow="ellipsis") for line in lines]
    return Group(ToolLine(run, mark, seconds), *(Hanging(each, "  ") for each in shown))


def _draw_prompt(item: Prompt, expanded: bool) -> RenderableType:
    mark = "» " if item.steers else "› "
    return Hanging(Text(visible(item.text), "prompt"), mark, style="prompt.mark")


def _draw_answer(item: Answer, expanded: bool) -> RenderableType:
    return TerminalMarkdown(item.text)


def _draw_thinking(item: Thinking, expanded: bool) -> RenderableType:
    return Hanging(Text(visible(item.text.strip()), "faint"), "┆ ", "┆ ", "faint")


def _draw_tool_run(item: ToolRun, expanded: bool) -> RenderableType:
    line = ToolLine(item, None, None)
    if expanded:
        asked = arguments_text(item.arguments)
        came = item.output.rstrip("\n")
        return Group(
            line,
            *([Hanging(Text(visible(asked), "faint"), "  ")] if asked else []),
            Hanging(Text(came or "(no output)"), "  │ ", "  │ ", "faint"),
        )
    if item.state not in ("failed", "interrupted"):
        return line
    shown = [each for each in item.output.split("\n") if each.strip()][-_FAILURE_LINES:]
    if " ".join(shown).startswith(item.summary):
        return line
    texts = (Text(each, "faint", no_wrap=True, overflow="ellipsis") for each in shown)
    return Group(line, *(Hanging(text, "  ") for text in texts))


def _draw_notice(item: Notice, expanded: bool) -> RenderableType:
    source = f"{visible(item.source)}: " if item.source else ""
    mark = {"info": "· ", "warning": "! ", "error": "✗ "}[item.level]
    style = item.level
    return Hanging(Text.assemble((source, "faint"), (visible(item.text), style)), mark, style=style)


def _draw_question(item: Question, expanded: bool) -> RenderableType:
    """Every line behind a bar, so that none can pretend to be the terminal's own."""
    lines = question_text(item.prompt).split("\n")
    if len(lines) > _QUESTION_LINES:
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
    ToolRun: _draw_tool_run,
    Notice: _draw_notice,
    Question: _draw_question,
    Decision: _draw_decision,
    Ending: _draw_ending,
}
