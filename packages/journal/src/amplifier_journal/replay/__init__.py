"""Replay: runs recorded sessions again, turns them into tests, and compares them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_journal.replay.cassette import assert_replays, to_test
    from amplifier_journal.replay.comparison import Difference, diff
    from amplifier_journal.replay.replayer import Replay, replay

__all__ = ["Difference", "Replay", "assert_replays", "diff", "replay", "to_test"]

# Imported on first use: comparing does not need the kernel.
_FILES = {
    "Difference": "comparison",
    "Replay": "replayer",
    "assert_replays": "cassette",
    "diff": "comparison",
    "replay": "replayer",
    "to_test": "cassette",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(name)
    return getattr(import_module(f"amplifier_journal.replay.{_FILES[name]}"), name)
