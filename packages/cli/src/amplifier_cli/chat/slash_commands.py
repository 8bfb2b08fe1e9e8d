"""The `/` commands and their table."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from amplifier_cli.chat.chat import Chat
from amplifier_cli.chat.slash import SlashCommand, SlashCommands
from amplifier_cli.render.export import as_markdown
from amplifier_cli.render.plain import cost_text, count, counted, one_line
from amplifier_cli.sessions import store
from amplifier_core.errors import ModuleError
from amplifier_foundation.rewind import tell_model
from amplifier_foundation.session_options import model_key
from amplifier_foundation.short_ids import short_id
from amplifier_journal.readings.items import Notice, items_of
from amplifier_kit.durable_files import append_whole
from amplifier_sandbox.platforms.opening import open_itself
from amplifier_sandbox.visible_text import visible

_CHARACTERS_PER_TOKEN = 4
_KEYS = (
    ("Enter", "send; while a turn runs: queue"),
    ("Alt-Enter", "new line"),
    ("Esc", "deny a question; else stop the turn; again: take the queue back"),
    ("Shift-Tab", "the next mode: ask, edits, plan, auto"),
    ("Ctrl-O", "all of the last tool call"),
    ("Ctrl-L", "empty screen"),
    ("Ctrl-D", "leave"),
    ("", ""),
    ("y, a, n", "to a question: allow once, allow for longer, deny"),
    ("r", "deny and say why"),
    ("e", "change the command, then run it"),
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
    """Show the tokens and the cost of the conversation so far."""
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
    """Show what fills the model's window."""
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
    """Show one tool call in full, by default the last one."""
    number = argument.lstrip("#")
    chat.expand(int(number) if number.isdecimal() else None)


def _first_sentence(text: str) -> str:
    return one_line(text).split(". ")[0].rstrip(".")


async def clear(chat: Chat, argument: str) -> None:
    """Clear the context; the log keeps everything."""
    if chat.conversation.is_running:
        chat.terminal.put(Notice("A turn is running; stop it first (Esc).", "warning"))
        return
    await chat.context.clear()
    chat.usage.context = None
    chat.terminal.put(Notice("The model has forgotten the conversation; the log has it all."))


async def choose_model(chat: Chat, argument: str) -> None:
    """List the models, or switch to one from the next turn on."""
    name, provider = chat.provider
    if not argument:
        models = await provider.list_models()
        rows = [(each.id, each.display_name) for each in models] or [("", "none are listed")]
        chat.terminal.put_lines(table([("now", chat.model), *rows]))
        return
    entry = _entry_of(chat.live.session.config, name)
    if entry is None:
        chat.terminal.put(Notice(f"The plan has no provider `{name}`.", "warning"))
        return
    known: dict[str, Any] = entry.get("config") or {}
    key = model_key(known)
    try:
        await chat.live.session.swap(
            "providers", {**entry, "config": {**known, key: argument}}, replaces=name
        )
    except ModuleError as error:
        chat.terminal.put(Notice(f"The model stays as it is: {error}", "warning"))
        return
    chat.usage.model = argument
    chat.terminal.put(Notice(f"From the next turn on: {argument}."))


async def choose_mode(chat: Chat, argument: str) -> None:
    """List the modes, or change to one."""
    if chat.grants is None:
        chat.terminal.put(Notice("This session has no modes.", "warning"))
    elif argument in chat.grants.modes:
        await chat.set_mode(argument)
    elif argument:
        known = ", ".join(chat.grants.modes)
        chat.terminal.put(Notice(f"There is no mode `{argument}`. Known: {known}.", "warning"))
    else:
        rows = [("now", chat.grants.mode), *chat.grants.modes.items()]
        chat.terminal.put_lines(table(rows))


async def show_grants(chat: Chat, argument: str) -> None:
    """List what is allowed beyond one call; `revoke N` takes one back."""
    if chat.grants is None:
        chat.terminal.put(Notice("This session remembers no answers.", "warning"))
        return
    granted: list[dict[str, Any]] = chat.grants.list()
    word, _, number = argument.partition(" ")
    if word == "revoke" and number.isdecimal():
        if not 1 <= int(number) <= len(granted):
            told = f"There is no number {number}; /grants lists what can be revoked."
            chat.terminal.put(Notice(told, "warning"))
            return
        chosen = granted[int(number) - 1]
        await asyncio.to_thread(chat.grants.revoke, chosen["id"])
        chat.terminal.put(Notice(f"Revoked: {one_line(chosen['matches'])}"))
        return
    if argument:
        chat.terminal.put(Notice("/grants lists them; /grants revoke N takes one back.", "warning"))
        return
    rows = [(str(at), _grant_line(each)) for at, each in enumerate(granted, start=1)]
    chat.terminal.put_lines(table(rows or [("", "nothing is allowed beyond one call")]))


def _grant_line(grant: dict[str, Any]) -> str:
    end = str(grant["until"])[:16].replace("T", " ")
    what = f"{grant['action']} {one_line(grant['matches'])}"
    return f"{what}; this {grant['scope']}, until {end} UTC, by {grant['who']}"


async def undo(chat: Chat, argument: str) -> None:
    """Preview how the last file changes would be undone; with `yes`, undo them."""
    checkpoints = chat.coordinator.get_capability("files.checkpoints")
    turns: list[Any] = [] if checkpoints is None else await checkpoints.list()
    turn = _newest_not_undone(turns)
    if checkpoints is None or turn is None:
        told = "All changes are taken back." if turns else "No file was changed."
        chat.terminal.put(Notice(told))
        return
    if argument == "yes":
        steps = await checkpoints.undo(turn)
        done = [step.path for step in steps if step.action in ("restore", "remove")]
        await tell_model(chat.live, done)
        chat.terminal.put(Notice(f"Taken back: {', '.join(done) or 'nothing'}."))
        return
    steps = await checkpoints.preview(turn)
    parts = [
        Text(visible(f"{step.action} {step.path} {step.reason}\n{step.diff}").rstrip())
        for step in steps
    ]
    chat.terminal.put_lines(Group(*parts, Text("/undo yes does this.", "dim")))


def _newest_not_undone(turns: list[Any]) -> int | None:
    """Return the last turn with changes that were not undone; an undo is itself a turn."""
    undone = {each.undoes for each in turns}
    left = [each.turn for each in turns if each.undoes is None and each.turn not in undone]
    return left[-1] if left else None


async def fork(chat: Chat, argument: str) -> None:
    """Continue in a copy of this session; the original is not changed."""
    if chat.conversation.is_running:
        chat.terminal.put(Notice("A turn is running; stop it first (Esc).", "warning"))
        return
    chat.leave(fork=True)


async def export(chat: Chat, argument: str) -> None:
    """Write the conversation to a Markdown file that only its owner can read."""
    name = argument or f"amplifier-{short_id(chat.live.session_id)}.md"
    items = items_of(store().read(chat.live.session_id).records())
    title = str(chat.live.writer.metadata.get("title") or chat.live.session_id)
    text = as_markdown(title, items)
    try:
        path = await asyncio.to_thread(_write_new, chat.project, name, text)
    except OSError as error:
        chat.terminal.put(Notice(f"{name} was not written: {error.strerror}.", "warning"))
        return
    chat.terminal.put(Notice(f"Written to {path}."))


async def queue(chat: Chat, argument: str) -> None:
    """Show the queue, send it (`send`), or drop one (`drop N`) or all (`clear`)."""
    scene = chat.terminal.scene
    word, _, rest = argument.partition(" ")
    if word == "send":
        chat.conversation.release()
    elif word == "clear":
        dropped = chat.conversation.take_back()
        chat.terminal.put(Notice(f"Dropped {len(dropped)}: {' / '.join(dropped)}"))
    elif word == "drop" and rest.isdecimal() and 1 <= int(rest) <= len(scene.queue):
        chat.terminal.put(Notice(f"Dropped: {scene.queue.pop(int(rest) - 1)}"))
    elif scene.queue:
        rows = [(str(number), text) for number, text in enumerate(scene.queue, start=1)]
        chat.terminal.put_lines(table(rows))
    else:
        chat.terminal.put(Notice("Nothing is queued."))


async def steer(chat: Chat, argument: str) -> None:
    """Add a message to the running turn; the model reads it in its next step."""
    if not argument:
        chat.terminal.put(Notice("What should the model read?", "warning"))
    elif chat.conversation.steer(argument):
        chat.terminal.put(Notice("The model reads it with its next step."))
    else:
        chat.conversation.say(argument)


async def leave(chat: Chat, argument: str) -> None:
    """End the chat; the session can be resumed."""
    chat.leave()


def _write_new(folder: Path, name: str, text: str) -> Path:
    """Write a new file that only its owner can read; refuse to overwrite one."""
    path = folder / Path(name).expanduser()
    descriptor = open_itself(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    try:
        append_whole(descriptor, text.encode())
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    return path


def _entry_of(plan: dict[str, Any], provider: str) -> dict[str, Any] | None:
    entries: list[dict[str, Any]] = plan.get("providers") or []
    named = [each for each in entries if provider in (each.get("id"), each.get("instance_id"))]
    meant = named or [each for each in entries if each["module"] == f"provider-{provider}"]
    return meant[0] if meant else (entries[0] if len(entries) == 1 else None)


COMMANDS = SlashCommands(
    [
        SlashCommand("help", "", "commands and keys", show_help),
        SlashCommand("expand", "[N]", "all of a tool call", expand),
        SlashCommand("steer", "TEXT", "say it into the running turn", steer),
        SlashCommand("queue", "[send|drop N|clear]", "what waits to be sent", queue),
        SlashCommand("cost", "", "tokens and money so far", show_cost),
        SlashCommand("context", "", "what is in the window", show_context),
        SlashCommand("model", "[NAME]", "list models, take another", choose_model),
        SlashCommand("mode", "[NAME]", "list modes, change to one", choose_mode),
        SlashCommand("grants", "[revoke N]", "what is allowed beyond one call", show_grants),
        SlashCommand("tools", "", "what the model can call", show_tools),
        SlashCommand("undo", "[yes]", "take back the last file changes", undo),
        SlashCommand("clear", "", "let the model forget", clear),
        SlashCommand("fork", "", "continue in a copy", fork),
        SlashCommand("export", "[FILE]", "write it down as Markdown", export),
        SlashCommand("quit", "", "leave; the session stays", leave),
    ]
)
