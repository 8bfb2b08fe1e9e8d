"""Export a conversation as a Markdown document."""

from __future__ import annotations

from collections.abc import Iterable

from amplifier_cli.render.pieces import Decision, Ending, Shown, pieces
from amplifier_cli.render.tool_results import arguments_text, outcome_of
from amplifier_journal.readings.items import (
    Answer,
    Item,
    Notice,
    Prompt,
    Question,
    Thinking,
    ToolCall,
)
from amplifier_sandbox.visible_text import visible


def as_markdown(title: str, items: Iterable[Item]) -> str:
    """Return the whole conversation as Markdown, with all tool calls."""
    shown = (part for item in items for part in _whole(item))
    return "\n\n".join([f"# {title}", *(text for text in map(_part, shown) if text)]) + "\n"


def _whole(item: Item) -> list[Shown]:
    """Return the parts of an item; an answer stays in one, as the model wrote it."""
    return [item] if isinstance(item, Answer) else pieces(item)


def _part(item: Shown) -> str:
    match item:
        case Prompt():
            return "## " + ("(said in between) " if item.steers else "") + _quoted_title(item.text)
        case Answer():
            return visible(item.text).strip("\n")
        case ToolCall():
            outcome = outcome_of(item)
            parts = (arguments_text(item.arguments), outcome.output)
            body = "\n".join(part for part in parts if part)
            if body:
                return f"**{item.name}** ({outcome.state})\n\n{_fenced(body)}"
            return f"**{item.name}**"
        case Question():
            return _fenced(visible(item.prompt))
        case Decision():
            return f"→ {item.text}"
        case Notice() | Ending():
            return f"*{visible(item.text)}*"
        case Thinking():
            return _fenced(visible(item.text))
        case _:
            return ""


def _quoted_title(text: str) -> str:
    first, _, rest = visible(text).strip().partition("\n")
    if rest:
        return f"{first}\n\n{rest}"
    return first


def _fenced(text: str) -> str:
    """Return text in a fence that is longer than any inside it, so that it cannot break out."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"
