"""The parts of a full worker."""

from __future__ import annotations

from amplifier_runtime.children.children import Children
from amplifier_runtime.database.database import Database
from amplifier_runtime.limits.limits import Limits
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.signals.watcher import SignalWatch
from amplifier_runtime.turns.turn_run import TurnPart

__all__ = ["all_parts"]


def all_parts(database: Database) -> list[TurnPart]:
    """Return the parts of a full worker; the log is first, so that it records all the others."""
    return [SessionLog(database), SignalWatch(), Children(), Limits()]
