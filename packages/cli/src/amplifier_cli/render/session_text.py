"""Render a session's records as lines for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from amplifier_cli.output import styled
from amplifier_cli.render.plain import counted, message_of, took
from amplifier_cli.terminal import fitted, screen_width
from amplifier_journal.readings.items import (
    Cancellation,
    Fork,
    Item,
    Items,
    Notice,
    Prompt,
    Question,
    ToolCall,
    TurnEnd,
    items_of,
)
from amplifier_sandbox.visible_text import exact, json_text, visible

__all__ = ["SessionText", "markdown_of", "text_of"]

_INDENT = " " * 4
_LONG_TEXT_LINES = 24


class SessionText:
    """Turns records into lines, one record at a time."""

    def __init__(self, *, full: bool = False) -> None:
        self._full = full
        self._items = Items()

    def lines(self, record: Any) -> Iterator[str]:
        """Yield the lines of one record; most records have none."""
        for item in self._items.finished(record):
            yield from self._draw(item)

    def _draw(self, item: Item) -> Iterator[str]:
        match item:
            case Prompt(steers=False):
                yield ""
                number = "?" if item.turn is None else item.turn
                text = styled(self._text(item.text, 5), bold=True)
                yield styled(f"{number:>3} > ", fg="cyan", bold=True) + text
            case ToolCall():
                yield from self._draw_call(item)
            case TurnEnd():
                yield from self._draw_end(item)
            case Question():
                asked = fitted(item.prompt, screen_width() - 30)
                yield f"{_INDENT}? {asked} {styled(exact(str(item.decision)), fg='magenta')}"
            case Notice():
                color = {"warning": "yellow", "error": "red"}.get(item.level)
                text = fitted(f"{item.source}: {item.text}", screen_width() - 4)
                yield _INDENT + styled(text, fg=color, dim=color is None)
            case Cancellation():
                yield _INDENT + styled("stopped by the user", fg="yellow")
            case Fork():
                at = "?" if item.at is None else item.at
                yield _INDENT + styled(exact(f"forked from {item.session_id} at {at}"), dim=True)
            case _:
                pass

    def _draw_call(self, call: ToolCall) -> Iterator[str]:
        good = call.state == "done"
        mark = styled("✓", fg="green") if good else styled("✗", fg="red")
        line = fitted(f"{call.name} {json_text(call.arguments)}", screen_width() - 16)
        # A denied call did not run, so it has no duration.
        time = "" if call.seconds is None else f"  {styled(took(call.seconds), dim=True)}"
        yield f"{_INDENT}{mark} {line}{time}"
        given = call.result
        result = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        if not good:
            told = call.said or message_of(result.get("error") or call.error or "no result")
            yield f"{_INDENT}  {styled(fitted(told, screen_width() - 8), fg='red')}"
        elif self._full:
            yield f"{_INDENT}  {self._text(str(result.get('output')), 6)}"

    def _draw_end(self, end: TurnEnd) -> Iterator[str]:
        if end.answer:
            yield ""
            yield _INDENT + self._text(end.answer, 4)
        if end.error:
            yield _INDENT + styled(visible(f"failed: {message_of(end.error)}"), fg="red")
        yield _INDENT + styled(f"{end.stop_reason}, {took(end.seconds)}", dim=True)

    def _text(self, text: str, indent: int) -> str:
        """Return indented text; the middle of a long one is left out unless `full` is set."""
        lines = visible(text).strip().split("\n")
        if not self._full and len(lines) > _LONG_TEXT_LINES:
            kept = _LONG_TEXT_LINES // 2
            left_out = len(lines) - 2 * kept
            lines = [
                *lines[:kept],
                styled(f"[{counted(left_out, 'line')}]", dim=True),
                *lines[-kept:],
            ]
        return ("\n" + " " * indent).join(lines)


def text_of(records: Iterable[Any], *, full: bool = False) -> Iterator[str]:
    """Yield the lines of all records."""
    text = SessionText(full=full)
    for record in records:
        yield from text.lines(record)


def markdown_of(session_id: str, records: Iterable[Any]) -> str:
    """Return the prompts, tool calls and answers of a session as a Markdown document."""
    parts = [f"# Session {session_id}"]
    for item in items_of(records):
        match item:
            case Prompt(steers=False):
                parts.append(f"## {item.turn}. Prompt\n\n{item.text}")
            case ToolCall(state="done" | "failed" | "interrupted"):
                parts.append(f"- `{item.name}` {json_text(item.arguments)}")
            case TurnEnd(answer=str(answer)) if answer:
                parts.append(f"### Answer\n\n{answer}")
            case _:
                pass
    return "\n\n".join(parts)
