"""A conversation as a Markdown document."""

from __future__ import annotations

from collections.abc import Iterable

from amplifier_cli.render.items import Answer, Ending, Item, Notice, Prompt, Question, ToolRun
from amplifier_cli.render.tool_results import arguments_text
from amplifier_sandbox.visible_text import visible


def as_markdown(title: str, items: Iterable[Item]) -> str:
    """Return everything that was said and done, readable by people and by programs."""
    parts = [f"# {title}", *(part for part in map(_part, items) if part)]
    return "\n\n".join(parts) + "\n"


def _part(item: Item) -> str:
    if isinstance(item, Prompt):
        return "## " + ("(said in between) " if item.steers else "") + _quoted_title(item.text)
    if isinstance(item, Answer):
        return visible(item.text).strip("\n")
    if isinstance(item, ToolRun):
        body = "\n".join(part for part in (arguments_text(item.arguments), item.output) if part)
        if body:
            return f"**{item.name}** ({item.state})\n\n{_fenced(body)}"
        return f"**{item.name}**"
    if isinstance(item, Question):
        return f"{_fenced(visible(item.prompt))}\n\n→ {item.decision}"
    if isinstance(item, Notice | Ending):
        return f"*{visible(item.text)}*"
    return _fenced(visible(item.text))


def _quoted_title(text: str) -> str:
    first, _, rest = visible(text).strip().partition("\n")
    if rest:
        return f"{first}\n\n{rest}"
    return first


def _fenced(text: str) -> str:
    """Return text in a fence that is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"
