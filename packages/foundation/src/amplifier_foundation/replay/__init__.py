"""Replay: recorded sessions run again, become tests, are forked, rewound and compared."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_foundation.replay.cassette import assert_replays, to_test
    from amplifier_foundation.replay.comparison import Difference
    from amplifier_foundation.replay.replaying import Replay, replay
    from amplifier_foundation.replay.rewinding import (
        diff,
        fork,
        preview_rewind,
        rewind,
        undo_rewind,
    )

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

# Looked up on first use: `fork` needs none of the kernel, and most commands need nothing of this.
_FILES = {
    "Difference": "comparison",
    "Replay": "replaying",
    "assert_replays": "cassette",
    "diff": "rewinding",
    "fork": "rewinding",
    "preview_rewind": "rewinding",
    "replay": "replaying",
    "rewind": "rewinding",
    "to_test": "cassette",
    "undo_rewind": "rewinding",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(name)
    return getattr(import_module(f"amplifier_foundation.replay.{_FILES[name]}"), name)
