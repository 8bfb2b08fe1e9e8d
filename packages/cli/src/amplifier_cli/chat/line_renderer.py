"""Render rich's renderables to lines of styled text."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.theme import Theme

from amplifier_sandbox.visible_text import visible

PALETTE = Theme(
    {
        "prompt": "bold",
        "prompt.mark": "bold cyan",
        "faint": "dim",
        "done": "green",
        "failed": "red",
        "waiting": "magenta",
        "tool": "bold",
        "info": "dim",
        "warning": "yellow",
        "error": "red",
        "question": "magenta",
        "added": "green",
        "removed": "red",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold italic",
        "markdown.h4": "italic",
        "markdown.h5": "italic",
        "markdown.h6": "italic",
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.link": "underline",
        "markdown.link_url": "dim",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "markdown.block_quote": "dim",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)


class LineRenderer:
    """Renders at any width; without colours if `NO_COLOR` is set."""

    def __init__(self, *, styled: bool = True, colors: bool | None = None) -> None:
        self._styled = styled
        if colors is None:
            self._colors = not os.environ.get("NO_COLOR")
        else:
            self._colors = colors

    def lines(self, renderable: RenderableType, width: int) -> list[str]:
        """Return the lines, without trailing blanks and without empty lines around them."""
        console = Console(
            file=io.StringIO(),
            width=max(10, width),
            theme=PALETTE,
            force_terminal=True,
            color_system="standard",
            highlight=False,
            legacy_windows=False,
            emoji=False,
        )
        rows = console.render_lines(renderable, pad=False)
        lines = [self._line(row) for row in rows]
        full = [number for number, line in enumerate(lines) if line]
        if full:
            return lines[full[0] : full[-1] + 1]
        return []

    def _line(self, row: Iterable[Segment]) -> str:
        # The last place before the terminal: escape the text here, before styles are added.
        segments = [each._replace(text=visible(each.text)) for each in row if not each.control]
        if not self._styled:
            return "".join(each.text for each in segments).rstrip()
        while segments and not segments[-1].text.strip():
            segments.pop()
        if segments:
            last = segments[-1]
            segments[-1] = last._replace(text=last.text.rstrip())
        if self._colors:
            kept = segments
        else:
            kept = Segment.remove_color(segments)
        return "".join(
            each.style.render(each.text, color_system=ColorSystem.STANDARD)
            if each.style
            else each.text
            for each in kept
        )
