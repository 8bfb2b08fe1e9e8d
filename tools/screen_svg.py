"""A terminal's screen as an SVG that needs nothing but itself."""

from __future__ import annotations

import io
from html import escape

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_CELL, _LINE, _SIZE = 8.4, 19.0, 14
_MARGIN, _BAR = 18, 38
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_LIGHTS = ("#e06c6c", "#d9b35f", "#7ec27a")
# Colours that keep their distance from each other and from the background.
_THEME = TerminalTheme(
    (22, 24, 30),
    (214, 218, 226),
    [
        (60, 64, 74), (232, 104, 104), (126, 200, 122), (226, 188, 98),
        (112, 164, 240), (198, 134, 226), (92, 196, 204), (214, 218, 226),
    ],
    [
        (120, 126, 140), (240, 130, 130), (150, 220, 146), (240, 206, 124),
        (140, 186, 250), (214, 160, 240), (124, 216, 222), (240, 242, 246),
    ],
)  # fmt: skip


def draw(screen: str, *, columns: int, title: str) -> str:
    """Return a captured screen, colours and all, as an SVG."""
    console = Console(width=columns, file=io.StringIO(), force_terminal=True, highlight=False)
    lines = console.render_lines(Text.from_ansi(screen), pad=False)
    width = columns * _CELL + 2 * _MARGIN
    height = _BAR + len(lines) * _LINE + _MARGIN
    body = [_line(line, _BAR + (number + 1) * _LINE - 5) for number, line in enumerate(lines)]
    lights = [
        f'<circle cx="{_MARGIN + 6 + 20 * number}" cy="19" r="6" fill="{color}"/>'
        for number, color in enumerate(_LIGHTS)
    ]
    back, front = _THEME.background_color.hex, _THEME.foreground_color.hex
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'font-family="{_FONTS}" font-size="{_SIZE}" fill="{front}">',
            f"<title>{escape(title)}</title>",
            f'<rect width="100%" height="100%" rx="10" fill="{back}"/>',
            *lights,
            f'<text x="{width / 2:.0f}" y="24" text-anchor="middle" opacity="0.6">'
            f"{escape(title)}</text>",
            *(line for line in body if line),
            "</svg>\n",
        ]
    )


def _line(segments: list[Segment], y: float) -> str:
    """Return one line: every run of one style at its own place, however wide the font is."""
    parts: list[str] = []
    column = 0
    for segment in segments:
        text, style = segment.text, segment.style or Style()
        if style.reverse:
            box = f'x="{_x(column)}" y="{y - 14:.1f}" width="{cell_len(text) * _CELL:.1f}"'
            parts.append(f'<rect {box} height="{_LINE}"/>')
        words = text.strip(" ")
        if words:
            at = column + len(text) - len(text.lstrip(" "))
            length = cell_len(words) * _CELL
            place = f'x="{_x(at)}" y="{y:.1f}" textLength="{length:.1f}"'
            parts.append(f"<text {place}{_look(style)} xml:space='preserve'>{escape(words)}</text>")
        column += cell_len(text)
    return "".join(parts)


def _x(column: int) -> str:
    return f"{_MARGIN + column * _CELL:.1f}"


def _look(style: Style) -> str:
    looks: list[str] = []
    color: Color | None = style.color
    if style.reverse:
        looks.append(f'fill="{_THEME.background_color.hex}"')
    elif color is not None and not color.is_default:
        looks.append(f'fill="{color.get_truecolor(_THEME).hex}"')
    if style.bold:
        looks.append('font-weight="bold"')
    if style.italic:
        looks.append('font-style="italic"')
    if style.underline:
        looks.append('text-decoration="underline"')
    if style.dim:
        looks.append('opacity="0.55"')
    return "".join(f" {each}" for each in looks)
