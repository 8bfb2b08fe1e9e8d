"""The `/` commands that change something."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.text import Text

from amplifier_cli.chat.chat import Chat
from amplifier_cli.chat.slash_looking import table
from amplifier_cli.render.export import as_markdown
from amplifier_cli.render.items import Notice
from amplifier_cli.render.transcript import transcript
from amplifier_cli.sessions import store
from amplifier_core.errors import ModuleError
from amplifier_foundation.short_ids import short_id
from amplifier_sandbox.visible_text import visible

# By which name a provider's configuration has its model.
_MODEL_KEYS = ("default_model", "model")


async def clear(chat: Chat, argument: str) -> None:
    """Begin afresh: the model forgets, the log does not."""
    if chat.conversation.is_running:
        chat.terminal.put(Notice("A turn is running; stop it first (Esc).", "warning"))
        return
    await chat.context.clear()
    chat.usage.context = None
    chat.terminal.put(Notice("The model has forgotten the conversation; the log has it all."))


async def choose_model(chat: Chat, argument: str) -> None:
    """Show the models, or take another one from the next turn on."""
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
    key = next((each for each in _MODEL_KEYS if each in known), _key_of(entry))
    try:
        await chat.live.session.swap(
            "providers", {**entry, "config": {**known, key: argument}}, replaces=name
        )
    except ModuleError as error:
        chat.terminal.put(Notice(f"The model stays as it is: {error}", "warning"))
        return
    chat.usage.model = argument
    chat.terminal.put(Notice(f"From the next turn on: {argument}."))


async def undo(chat: Chat, argument: str) -> None:
    """Show how the last changes of files would be taken back; with `yes`, take them back."""
    checkpoints = chat.coordinator.get_capability("files.checkpoints")
    turns: list[Any] = [] if checkpoints is None else await checkpoints.list()
    if checkpoints is None or not turns:
        chat.terminal.put(Notice("No file was changed."))
        return
    turn = turns[-1].turn
    if argument == "yes":
        steps = await checkpoints.undo(turn)
        done = [step.path for step in steps if step.action in ("restore", "remove")]
        chat.terminal.put(Notice(f"Taken back: {', '.join(done) or 'nothing'}."))
        return
    steps = await checkpoints.preview(turn)
    parts = [
        Text(visible(f"{step.action} {step.path} {step.reason}\n{step.diff}").rstrip())
        for step in steps
    ]
    chat.terminal.put_lines(Group(*parts, Text("/undo yes does this.", "dim")))


async def fork(chat: Chat, argument: str) -> None:
    """Go on in a copy of this session; the original stays as it is."""
    if chat.conversation.is_running:
        chat.terminal.put(Notice("A turn is running; stop it first (Esc).", "warning"))
        return
    chat.leave(fork=True)


async def export(chat: Chat, argument: str) -> None:
    """Write the conversation to a Markdown file that only its owner can read."""
    name = argument or f"amplifier-{short_id(chat.live.session_id)}.md"
    items = transcript(store().read(chat.live.session_id).records())
    title = str(chat.live.writer.metadata.get("title") or chat.live.session_id)
    text = as_markdown(title, items)
    try:
        path = await asyncio.to_thread(_write_new, chat.project, name, text)
    except OSError as error:
        chat.terminal.put(Notice(f"{name} was not written: {error.strerror}.", "warning"))
        return
    chat.terminal.put(Notice(f"Written to {path}."))


async def queue(chat: Chat, argument: str) -> None:
    """Show what waits, send it (`send`), or drop one (`drop N`) or all (`clear`)."""
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
    """Say something into the running turn; the model reads it with its next step."""
    if not argument:
        chat.terminal.put(Notice("What is the model to be told?", "warning"))
    elif chat.conversation.steer(argument):
        chat.terminal.put(Notice("The model reads it with its next step."))
    else:
        chat.conversation.say(argument)


async def leave(chat: Chat, argument: str) -> None:
    """End the chat; the session can be resumed."""
    chat.leave()


def _write_new(folder: Path, name: str, text: str) -> Path:
    """Write a file that is not there yet, for its owner alone."""
    path = folder / Path(name).expanduser()
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
    return path


def _entry_of(plan: dict[str, Any], provider: str) -> dict[str, Any] | None:
    entries: list[dict[str, Any]] = plan.get("providers") or []
    named = [each for each in entries if provider in (each.get("id"), each.get("instance_id"))]
    meant = named or [each for each in entries if each["module"] == f"provider-{provider}"]
    return meant[0] if meant else (entries[0] if len(entries) == 1 else None)


def _key_of(entry: dict[str, Any]) -> str:
    if entry["module"] in ("provider-mock",):
        return "model"
    return "default_model"
