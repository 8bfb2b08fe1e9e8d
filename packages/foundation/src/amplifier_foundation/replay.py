"""The journal's replay, and forks and rewinds of stored sessions, under one public name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.rewind import fork, preview_rewind, rewind, undo_rewind
    from amplifier_journal.replay import Difference, Replay, assert_replays, diff, replay, to_test

__all__ = [
    "Difference",
    "Replay",
    "assert_replays",
    "diff",
    "fork",
    "preview_rewind",
    "replay",
    "rewind",
    "to_test",
    "undo_rewind",
]

_OF_STORED_SESSIONS = ("fork", "preview_rewind", "rewind", "undo_rewind")


# Looked up on first use: `fork` needs none of the kernel, and most commands need nothing of this.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    if name in _OF_STORED_SESSIONS:
        owner = "amplifier_foundation.rewind"
    else:
        owner = "amplifier_journal.replay"
    return getattr(import_module(owner), name)
