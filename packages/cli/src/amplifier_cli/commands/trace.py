"""`amplifier trace`: draw a session as a waterfall, on the screen or as an SVG."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from amplifier_cli.output import say, styled
from amplifier_cli.render.plain import counted, one_line, took
from amplifier_cli.sessions import SESSION, children_of, durable_options, read_session
from amplifier_cli.terminal import fitted, heading, notice, screen_width, width_of
from amplifier_foundation.short_ids import short_id
from amplifier_journal.readings.timeline import Span, timeline

_COLORS = {
    "turn": "white", "model": "blue", "tool": "green", "approval": "magenta", "child": "cyan",
}  # fmt: skip
_LABEL_WIDTH = 34
_TIME_WIDTH = 8
_PAUSE_SHARE = 0.02

_ROW = 22
_LABEL = 250
_BARS = 620
_TIME = 80
_TOP = 34
_STYLE = """
text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#24292f}
.title{font-weight:bold}.faint{fill:#6e7781}.grid{stroke:#d0d7de}
.turn{fill:#8c959f}.model{fill:#4c8dff}.tool{fill:#2da44e}.approval{fill:#a475f9}.child{fill:#1b9aaa}
.failed{stroke:#e5534b;stroke-width:2}.open{fill-opacity:.5}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}.grid{stroke:#3d444d}}
"""


class Row(NamedTuple):
    """One bar: its depth, and its start and end without the pauses between turns."""

    depth: int
    span: Span
    start: float
    end: float

    @property
    def label(self) -> str:
        """The label of the bar, indented by its depth."""
        name = self.span.name
        if self.span.kind == "child":
            name = f"session {short_id(name)}"
        return f"{'  ' * self.depth}{one_line(name)}"


def rows_of(
    session_id: str, records: list[Any], children: Iterable[tuple[str, list[Any]]] = ()
) -> list[Row]:
    """Return the bars of a session and its children, each below its parent."""
    spans = _spans(session_id, records)
    for child_id, inner in children:
        if inner and records:
            later = _moment(inner[0]) - _moment(records[0])
            spans += [_moved(each, child_id, later) for each in _spans(child_id, inner)]
    spans.sort(key=lambda each: each.start)
    shifts = _pauses([each for each in spans if each.kind == "turn" and each.parent is None])
    rows: list[Row] = []

    def add(parent: str | None, depth: int) -> None:
        for each in (one for one in spans if one.parent == parent):
            early = max((gone for begin, gone in shifts if each.start >= begin), default=0.0)
            rows.append(Row(depth, each, each.start - early, each.end - early))
            add(each.id, depth + 1)

    add(None, 0)
    return rows


def draw(rows: list[Row]) -> Iterable[str]:
    """Yield the waterfall as lines for a terminal."""
    whole = max((row.end for row in rows), default=0.0) or 1.0
    room = max(screen_width() - _LABEL_WIDTH - _TIME_WIDTH - 4, 10)
    for row in rows:
        label = fitted(row.label.strip(), _LABEL_WIDTH - 2 * row.depth)
        label = " " * (2 * row.depth) + label
        first = min(round(row.start / whole * room), room - 1)
        length = min(max(round((row.end - row.start) / whole * room), 1), room - first)
        color = "red" if row.span.ok is False else _COLORS[row.span.kind]
        mark = "▒" if row.span.ok is None else "█"
        bar = " " * first + styled(mark * length, fg=color) + " " * (room - first - length)
        space = " " * (_LABEL_WIDTH - width_of(label))
        yield f"{label}{space}  {bar}  {took(row.end - row.start):>{_TIME_WIDTH}}"


def as_svg(rows: list[Row], title: str) -> str:
    """Return the waterfall as an SVG that is readable on light and dark pages."""
    whole = max((row.end for row in rows), default=0.0) or 1.0
    width = _LABEL + _BARS + _TIME
    height = _TOP + _ROW * len(rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<title>{_safe(title)}</title><style>{_STYLE}</style>",
        f'<text class="title" x="8" y="20">{_safe(title)}</text>',
    ]
    for quarter in range(5):
        x = _LABEL + _BARS * quarter / 4
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP - 4}" y2="{height - 24}"/>')
        when = took(whole * quarter / 4)
        parts.append(f'<text class="faint" x="{x}" y="{height - 8}">{when}</text>')
    parts += [_bar(row, at, whole) for at, row in enumerate(rows)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(row: Row, at: int, whole: float) -> str:
    y = _TOP + _ROW * at
    x = _LABEL + _BARS * row.start / whole
    length = max(_BARS * (row.end - row.start) / whole, 2)
    state = {False: " failed", None: " open"}.get(row.span.ok, "")
    time = took(row.end - row.start)
    about = _safe(f"{row.span.kind} {one_line(row.span.name)} {row.span.module}, {time}")
    label = _safe(fitted(row.label.strip(), 30 - 2 * row.depth))
    return (
        f'<g><title>{about}</title><text x="{8 + 14 * row.depth}" y="{y + 13}">{label}</text>'
        f'<rect class="{row.span.kind}{state}" x="{x:.1f}" y="{y + 2}" width="{length:.1f}" '
        f'height="{_ROW - 8}" rx="3"/>'
        f'<text class="faint" x="{_LABEL + _BARS + 8}" y="{y + 13}">{time}</text></g>'
    )


def _safe(text: str) -> str:
    from html import escape  # noqa: PLC0415 - only for the SVG

    # Names come from models and projects, and markup in an SVG could run scripts in a browser.
    return escape(text)


def _spans(session_id: str, records: list[Any]) -> list[Span]:
    """Return the spans of a session; a child is named by its id without its parent's."""
    own = f"{session_id}-"
    return [
        each._replace(name=each.name.removeprefix(own)) if each.kind == "child" else each
        for each in timeline(records)
    ]


def _moment(record: Any) -> float:
    return datetime.fromisoformat(record.at).timestamp()


def _moved(span: Span, session_id: str, later: float) -> Span:
    """Return a span of a child moved into its parent's timeline."""
    # Ids of calls are unique only within a session, so the child's id is put before them.
    if span.parent is None:
        parent = session_id
    else:
        parent = f"{session_id} {span.parent}"
    # The id of a child session is unique everywhere, and its own spans refer to it.
    if span.kind == "child":
        own = span.id
    else:
        own = f"{session_id} {span.id}"
    return span._replace(id=own, parent=parent, start=span.start + later, end=span.end + later)


def _pauses(turns: list[Span]) -> list[tuple[float, float]]:
    """Return pairs of a turn's start and the total idle time to cut before it."""
    # A session may be idle for days: at true scale its turns would be too short to see.
    shifts: list[tuple[float, float]] = []
    pause = _PAUSE_SHARE * sum(each.end - each.start for each in turns)
    gone = 0.0
    busy_until = -pause
    for turn in turns:
        gone += max(turn.start - busy_until - pause, 0.0)
        shifts.append((turn.start, gone))
        busy_until = max(busy_until, turn.end)
    return shifts


@click.command()
@SESSION
@durable_options
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write a picture.")
def trace(session_id: str, svg: Path | None) -> None:
    """Draw a session as a waterfall."""
    reader = read_session(session_id)
    children = [(each.session_id, list(each.records())) for each in children_of(reader)]
    rows = rows_of(reader.session_id, list(reader.records()), children)
    title = str(reader.metadata.get("title") or reader.session_id)
    if svg is not None:
        svg.write_text(as_svg(rows, fitted(title, 100)), encoding="utf-8")
        notice(f"{svg}: {counted(len(rows), 'bar')}")
        return
    heading(fitted(title, screen_width()))
    for line in draw(rows):
        say(line)
