"""The `/` commands that only look."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from amplifier_cli.chat.chat import Chat
from amplifier_cli.render.plain import cost_text, count, counted, one_line

_CHARACTERS_PER_TOKEN = 4
_KEYS = (
    ("Enter", "send; while a turn runs: queue"),
    ("Alt-Enter", "new line"),
    ("Esc", "stop the turn and hold the queue; again: take the queue back"),
    ("Ctrl-O", "all of the last tool call"),
    ("Ctrl-L", "empty screen"),
    ("Ctrl-D", "leave"),
)


def table(rows: list[tuple[str, str]], *, style: str = "bold") -> Table:
    """Return two columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=style, no_wrap=True)
    grid.add_column()
    for left, right in rows:
        grid.add_row(Text(left), Text(right))
    return grid


async def show_help(chat: Chat, argument: str) -> None:
    """List the commands and the keys."""
    commands = [
        (f"/{each.name} {each.takes}".rstrip(), each.does) for each in chat.commands.all.values()
    ]
    chat.terminal.put_lines(table([*commands, ("", ""), *_KEYS]))


async def show_cost(chat: Chat, argument: str) -> None:
    """Show what the conversation took so far."""
    usage = chat.usage
    cost = chat.live.cost_usd
    rows = [
        ("turns", str(chat.live.turns)),
        ("model calls", str(usage.calls)),
        ("tokens read", f"{usage.input:,}"),
        ("of them cached", f"{usage.cached:,}"),
        ("tokens written", f"{usage.output:,}"),
        ("cost", cost_text(cost, chat.live.unpriced_calls) or "none yet"),
    ]
    status = chat.budget()
    if status is not None:
        limits = {name: value for name, value in status["limits"].items() if value is not None}
        told = ", ".join(f"{name} {value}" for name, value in limits.items()) or "no limit"
        rows.append(("budget", f"{told}; {status['share']:.0%} used"))
    chat.terminal.put_lines(table(rows, style="dim"))


async def show_context(chat: Chat, argument: str) -> None:
    """Show what the model's window holds."""
    messages: list[dict[str, Any]] = await chat.context.get_messages()
    sizes: dict[str, list[int]] = {}
    for message in messages:
        size = len(str(message.get("content") or "")) + len(str(message.get("tool_calls") or ""))
        sizes.setdefault(str(message.get("role")), []).append(size // _CHARACTERS_PER_TOKEN)
    rows = [
        (role, f"{counted(len(each), 'message')}, about {count(sum(each))} tokens")
        for role, each in sizes.items()
    ]
    window = chat.window
    if chat.usage.context is not None and window:
        share = chat.usage.context / window
        rows.append(
            ("last request", f"{count(chat.usage.context)} of {count(window)}, {share:.0%}")
        )
    chat.terminal.put_lines(table(rows or [("", "nothing yet")], style="dim"))


async def show_tools(chat: Chat, argument: str) -> None:
    """List the tools that the model can call."""
    tools: dict[str, Any] = chat.coordinator.get("tools")
    rows = [
        (name, _first_sentence(getattr(tool, "description", ""))) for name, tool in tools.items()
    ]
    chat.terminal.put_lines(table(sorted(rows) or [("", "no tools")]))


async def expand(chat: Chat, argument: str) -> None:
    """Show everything of one tool call, the last one unless a number is given."""
    number = argument.lstrip("#")
    chat.expand(int(number) if number.isdecimal() else None)


def _first_sentence(text: str) -> str:
    return one_line(text).split(". ")[0].rstrip(".")
