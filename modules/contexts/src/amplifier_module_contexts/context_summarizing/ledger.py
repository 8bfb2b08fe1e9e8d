"""The ledger: entries that survive every compaction word for word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, cast, get_args

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
        self.version = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything but the pinned rules."""
        self._entries = {kind: [] for kind in _TITLES}
        self._entries["rule"] += self._pinned
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

    def entries(self) -> dict[str, list[str]]:
        """Return the entries by kind: goal, rule, decision, todo."""
        return {kind: list(texts) for kind, texts in self._entries.items()}

    def text(self) -> str:
        """Return the ledger as a model reads it; empty if there are no entries."""
        parts = [_section(_TITLES[kind], texts) for kind, texts in self._entries.items() if texts]
        if parts:
            return "\n".join((_HEAD, *parts))
        return ""


def _section(title: str, texts: list[str]) -> str:
    return "\n".join((f"{title}:", *(f"- {text}" for text in texts)))
