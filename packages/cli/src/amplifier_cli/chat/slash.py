"""The registry of `/` commands: lookup by name or prefix, and completion."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from typing import Any, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document


class SlashCommand(NamedTuple):
    """One command: what it takes, what it does, and the function that does it to a `Chat`."""

    name: str
    takes: str
    does: str
    run: Callable[[Any, str], Awaitable[None]]


class SlashCommands:
    """All commands, by name."""

    def __init__(self, commands: Iterable[SlashCommand]) -> None:
        self.all = {each.name: each for each in commands}

    def find(self, text: str) -> tuple[SlashCommand | None, str, str]:
        """Return the command of a line and its argument, or None and a message for the user."""
        word, _, argument = text[1:].partition(" ")
        if word in self.all:
            meant = [word]
        else:
            meant = [each for each in self.all if each.startswith(word)]
        if len(meant) == 1:
            return self.all[meant[0]], argument.strip(), ""
        # What looks like a command is never sent to the model: it is probably a typing error.
        if word and meant:
            near = meant
        else:
            near = get_close_matches(word, self.all, n=1)
        if near:
            hint = f"Did you mean /{' or /'.join(near)}?"
        else:
            hint = "/help lists them."
        return None, "", f"There is no command /{word}. {hint}"


class SlashCompleter(Completer):
    """Completes commands at the beginning of the line."""

    def __init__(self, commands: SlashCommands) -> None:
        self._commands = commands

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield the commands that begin with the text before the cursor."""
        text = document.text_before_cursor
        if not text.startswith("/") or " " in text or "\n" in text:
            return
        for each in self._commands.all.values():
            if each.name.startswith(text[1:]):
                shown = f"/{each.name} {each.takes}".rstrip()
                yield Completion(f"/{each.name}", -len(text), display=shown, display_meta=each.does)
