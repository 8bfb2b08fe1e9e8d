"""From rich's renderables to lines of text with colours, for whatever writes to the terminal."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment

from amplifier_cli.render.palette import PALETTE
from amplifier_sandbox.visible_text import visible


class Paper:
    """Renders at any width; without colours where the person wants none."""

    def __init__(self, *, styled: bool = True, colors: bool | None = None) -> None:
        self._styled = styled
        if colors is None:
            self._colors = not os.environ.get("NO_COLOR")
        else:
            self._colors = colors

    def lines(self, renderable: RenderableType, width: int) -> list[str]:
        """Return the lines, without blanks at their ends and empty lines around them."""
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
        # The last place before the terminal: text is made visible here, styles come after.
        segments = [each._replace(text=visible(each.text)) for each in row if not each.control]
        if not self._styled:
            return "".join(each.text for each in segments).rstrip()
        while segments and not segments[-1].text.strip():
            segments.pop()
        if segments:
            last = segments[-1]
            segments[-1] = last._replace(text=last.text.rstrip())
        kept = segments if self._colors else Segment.remove_color(segments)
        return "".join(
            each.style.render(each.text, color_system=ColorSystem.STANDARD)
            if each.style
            else each.text
            for each in kept
        )
