"""Render Markdown for a terminal, whole or while it is still streaming."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from markdown_it import MarkdownIt
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
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax

from amplifier_sandbox.visible_text import visible

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


# HTML is not parsed: rich would drop it, and with it text that the model wrote.
_PARSER = MarkdownIt().enable(["strikethrough", "table"]).disable(["html_block", "html_inline"])
_FENCES = ("```", "~~~")


class _Heading(Heading):
    """A left-aligned heading without a box."""

    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _CodeBlock(CodeBlock):
    """Code on the terminal's own background, indented by two columns, long lines wrapped."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        syntax = Syntax(
            str(self.text).rstrip(),
            self.lexer_name,
            theme=ANSISyntaxTheme(CODE_COLORS),
            background_color="default",
            word_wrap=True,
        )
        yield Padding(syntax, (0, 0, 0, 2))


class TerminalMarkdown(Markdown):
    """Markdown in the chat's style; links show their address."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
    }

    def __init__(self, text: str) -> None:
        shown = visible(text)
        # No OSC 8 links: their text can differ from the address that a click opens.
        super().__init__(shown, hyperlinks=False)
        self.parsed = _PARSER.parse(shown)


class Split(NamedTuple):
    """The blocks that further text cannot change, and the rest."""

    finished: list[str]
    rest: str


def split_blocks(text: str) -> Split:
    """Split streaming text: all blocks but the last are finished."""
    starts = [
        token.map[0]
        for token in _PARSER.parse(text)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]
    if len(starts) < 2:
        return Split([], text)
    lines = text.split("\n")
    bounds = [0, *starts[1:]]
    finished = ["\n".join(lines[a:b]).strip("\n") for a, b in zip(bounds, bounds[1:], strict=False)]
    return Split(finished, "\n".join(lines[bounds[-1] :]))


def blocks_of(text: str) -> list[str]:
    """Split a complete text into its blocks."""
    finished, rest = split_blocks(text)
    if rest.strip():
        return [*finished, rest.strip("\n")]
    return finished


def tail_of_block(block: str, rows: int) -> str:
    """Return the last rows of a long block; code keeps its opening fence and stays code."""
    lines = block.split("\n")
    if len(lines) <= rows:
        return block
    if lines[0].lstrip().startswith(_FENCES):
        fence = lines[:1]
    else:
        fence = []
    return "\n".join([*fence, *lines[-rows:]])
