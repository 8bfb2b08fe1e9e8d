"""The ledger: entries that survive every compaction word for word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast, get_args

Kind = Literal["goal", "rule", "decision", "todo", "done"]
KINDS: tuple[str, ...] = get_args(Kind)

_HEAD = "[Ledger of this conversation: word for word, whatever else was left out.]"
_TITLES = {"goal": "Goal", "rule": "Rules", "decision": "Decisions", "todo": "Open"}
# Blanks must not match line ends, nor two parts of the pattern: the time would be quadratic.
_LINE = re.compile(rf"^[^\S\n]*({'|'.join(KINDS)}):[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)


class Ledger:
    """The goal, the rules, the decisions and the open to-dos of a session.

    `version` grows with every change. The goal is the first prompt until another one is set.
    """

    def __init__(self, pinned: Iterable[str], goal_chars: int) -> None:
        self._pinned = tuple(pinned)
        self._goal_chars = goal_chars
        self._is_goal_set = False
        self._entries: dict[str, list[str]] = {}
        # The open items of the session's to-do list.
        self._listed: list[str] = []
        self.version = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything but the pinned rules."""
        self._entries = {kind: [] for kind in _TITLES}
        self._entries["rule"] += self._pinned
        self._listed = []
        self._is_goal_set = False
        self.version += 1

    def add(self, kind: Kind, text: str) -> None:
        """Add one entry; `done` removes the open to-do with this text.

        Raises:
            ValueError: the kind is unknown, the text is empty, or no such to-do is open.
        """
        text = text.strip()
        if kind not in KINDS or not text:
            raise ValueError(f"`kind` must be one of {', '.join(KINDS)}, and `text` not empty.")
        if kind == "done":
            if text not in self._entries["todo"]:
                still_open = "; ".join(self._entries["todo"]) or "nothing"
                raise ValueError(f"No open to-do is `{text}`. Open: {still_open}.")
            self._entries["todo"].remove(text)
        elif kind == "goal":
            self._entries["goal"], self._is_goal_set = [text], True
        elif text not in self._entries[kind]:
            self._entries[kind].append(text)
        self.version += 1

    def read_prompt(self, text: str) -> None:
        """Take the goal from the first prompt, and entries from lines such as `Rule: be brief`."""
        if not self._is_goal_set and not self._entries["goal"] and text.strip():
            self._entries["goal"] = [text.strip()[: self._goal_chars]]
            self.version += 1
        for kind, rest in _LINE.findall(text):
            entry = rest.strip()
            if kind.lower() != "done" or entry in self._entries["todo"]:
                self.add(cast("Kind", kind.lower()), entry)

    def set_listed(self, texts: list[str]) -> None:
        """Replace the open items of the session's to-do list."""
        if texts != self._listed:
            self._listed = texts
            self.version += 1

    def entries(self) -> dict[str, list[str]]:
        """Return the entries by kind: goal, rule, decision, todo."""
        found = {kind: list(texts) for kind, texts in self._entries.items()}
        found["todo"] += [text for text in self._listed if text not in found["todo"]]
        return found

    def text(self) -> str:
        """Return the ledger as a model reads it; empty if there are no entries."""
        parts = [_section(_TITLES[kind], texts) for kind, texts in self.entries().items() if texts]
        if parts:
            return "\n".join((_HEAD, *parts))
        return ""


def open_todos(state: Mapping[str, Any]) -> list[str]:
    """Return the open items of the to-do list in a session's state, as tool-todo keeps it.

    Read from the state and not from the tool: a replay has the recorded state, but no tools.
    """
    # An app restores the state, so it can be anything.
    listed: Any = state.get("todos")
    if not isinstance(listed, list):
        return []
    found: list[str] = []
    for item in cast("list[Any]", listed):
        match item:
            case {"text": str(), "state": "done"}:
                pass
            case {"text": str(text)} if text:
                found.append(text)
            case _:
                pass
    return found


def _section(title: str, texts: list[str]) -> str:
    return "\n".join((f"{title}:", *(f"- {text}" for text in texts)))
