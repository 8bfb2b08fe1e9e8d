"""Replay: recorded sessions run again, become tests, and are compared."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_journal.replay.cassette import assert_replays, to_test
    from amplifier_journal.replay.comparison import Difference, diff
    from amplifier_journal.replay.replaying import Replay, replay

__all__ = ["Difference", "Replay", "assert_replays", "diff", "replay", "to_test"]

# Looked up on first use: comparing needs none of the kernel.
_FILES = {
    "Difference": "comparison",
    "Replay": "replaying",
    "assert_replays": "cassette",
    "diff": "comparison",
    "replay": "replaying",
    "to_test": "cassette",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(name)
    return getattr(import_module(f"amplifier_journal.replay.{_FILES[name]}"), name)
