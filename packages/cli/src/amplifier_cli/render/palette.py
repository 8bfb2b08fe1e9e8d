"""The styles: the terminal's own sixteen colours, so that they fit light and dark backgrounds."""

from __future__ import annotations

from rich.theme import Theme

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
