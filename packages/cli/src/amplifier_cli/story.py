"""What happened in a session, told in lines: prompts, tools, questions, answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from amplifier_cli.output import styled
from amplifier_cli.render.plain import counted, took
from amplifier_cli.terminal import fitted, screen_width
from amplifier_sandbox.visible_text import exact, json_text, visible

__all__ = ["Story", "tell"]

_INDENT = " " * 4
_LONG_TEXT_LINES = 24


class Story:
    """Turns records into lines, one record at a time; remembers the calls that are still open."""

    def __init__(self, *, full: bool = False) -> None:
        self._full = full
        self._tools: dict[str, str] = {}

    def lines(self, record: Any) -> Iterator[str]:
        """Yield the lines of one record; most records have none."""
        tell_kind = _KINDS.get(record.kind)
        if tell_kind is not None:
            yield from tell_kind(self, record.data)

    def _prompt(self, data: dict[str, Any]) -> Iterator[str]:
        yield ""
        yield styled(f"{data.get('turn', '?'):>3} > ", fg="cyan", bold=True) + styled(
            self._text(data.get("text", ""), 5), bold=True
        )

    def _turn_ended(self, data: dict[str, Any]) -> Iterator[str]:
        if answer := data.get("answer"):
            yield ""
            yield _INDENT + self._text(str(answer), 4)
        reason = data.get("stop_reason", "?")
        seconds = float(data.get("seconds") or 0)
        ending = f"{reason}, {took(seconds)}"
        if data.get("error"):
            yield _INDENT + styled(visible(f"failed: {_message(data['error'])}"), fg="red")
        yield _INDENT + styled(ending, dim=True)

    def _tool_call(self, data: dict[str, Any]) -> Iterator[str]:
        given = json_text(data.get("input"))
        line = fitted(f"{data.get('tool', '?')} {given}", screen_width() - 16)
        self._tools[str(data.get("call"))] = line
        return iter(())

    def _tool_result(self, data: dict[str, Any]) -> Iterator[str]:
        line = self._tools.pop(str(data.get("call")), "?")
        result = cast("dict[str, Any]", data.get("result") or {})
        good = bool(result) and result.get("success") is not False
        mark = styled("✓", fg="green") if good else styled("✗", fg="red")
        time = styled(took(float(data.get("seconds") or 0)), dim=True)
        yield f"{_INDENT}{mark} {line}  {time}"
        if not good:
            told = _message(result.get("error") or data.get("error"))
            yield f"{_INDENT}  {styled(fitted(told, screen_width() - 8), fg='red')}"
        elif self._full:
            yield f"{_INDENT}  {self._text(str(result.get('output')), 6)}"

    def _approval(self, data: dict[str, Any]) -> Iterator[str]:
        asked = fitted(str(data.get("prompt", "")), screen_width() - 30)
        decision = styled(exact(str(data.get("decision"))), fg="magenta")
        yield f"{_INDENT}? {asked} {decision}"

    def _cancel(self, data: dict[str, Any]) -> Iterator[str]:
        yield _INDENT + styled("stopped by the person", fg="yellow")

    def _display(self, data: dict[str, Any]) -> Iterator[str]:
        color = {"warning": "yellow", "error": "red"}.get(str(data.get("level")))
        text = f"{data.get('source', '')}: {data.get('message', '')}"
        yield _INDENT + styled(fitted(text, screen_width() - 4), fg=color, dim=color is None)

    def _fork(self, data: dict[str, Any]) -> Iterator[str]:
        told = f"forked from {data.get('session', data.get('from', '?'))} at {data.get('at', '?')}"
        yield _INDENT + styled(exact(told), dim=True)

    def _text(self, text: str, indent: int) -> str:
        """Return text below an indent, its middle lines left out unless all is wanted."""
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


def _message(error: Any) -> str:
    """Return the words of a recorded error, which may be a text or a mapping."""
    if not isinstance(error, dict):
        return str(error)
    fields = cast("dict[str, Any]", error)
    return str(fields.get("message") or fields)


_KINDS: dict[str, Callable[[Story, dict[str, Any]], Iterator[str]]] = {
    "prompt": Story._prompt,  # pyright: ignore[reportPrivateUsage] - the table of this class
    "turn.ended": Story._turn_ended,  # pyright: ignore[reportPrivateUsage] - as above
    "tool.call": Story._tool_call,  # pyright: ignore[reportPrivateUsage] - as above
    "tool.result": Story._tool_result,  # pyright: ignore[reportPrivateUsage] - as above
    "approval": Story._approval,  # pyright: ignore[reportPrivateUsage] - as above
    "cancel": Story._cancel,  # pyright: ignore[reportPrivateUsage] - as above
    "display": Story._display,  # pyright: ignore[reportPrivateUsage] - as above
    "fork": Story._fork,  # pyright: ignore[reportPrivateUsage] - as above
}


def tell(records: Iterable[Any], *, full: bool = False) -> Iterator[str]:
    """Yield the lines of all records."""
    story = Story(full=full)
    for record in records:
        yield from story.lines(record)
