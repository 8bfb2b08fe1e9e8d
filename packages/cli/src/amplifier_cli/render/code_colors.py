"""Colours for code out of the terminal's own sixteen, readable on light and dark."""

from __future__ import annotations

from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Name,
    Number,
    Operator,
    String,
    Token,
)
from rich.style import Style

CODE_COLORS: dict[tuple[str, ...], Style] = {
    Token: Style(),
    Comment: Style(dim=True, italic=True),
    Keyword: Style(color="magenta"),
    Keyword.Constant: Style(color="blue"),
    Operator.Word: Style(color="magenta"),
    Name.Function: Style(color="blue"),
    Name.Class: Style(color="blue", bold=True),
    Name.Decorator: Style(color="cyan"),
    Name.Builtin: Style(color="cyan"),
    Name.Tag: Style(color="blue"),
    Name.Attribute: Style(color="cyan"),
    String: Style(color="green"),
    Number: Style(color="cyan"),
    Generic.Inserted: Style(color="green"),
    Generic.Deleted: Style(color="red"),
    Generic.Heading: Style(bold=True),
    Generic.Subheading: Style(bold=True),
}
