"""Sessions on disk: an append-only log, metadata, large strings stored once, and an index."""

from amplifier_foundation.store.errors import (
    AmbiguousSessionError,
    LeaseLostError,
    SessionExistsError,
    SessionFullError,
    SessionHeldError,
    SessionNotFoundError,
    StoreError,
    StoreFullError,
)
from amplifier_foundation.store.index import SessionSummary
from amplifier_foundation.store.log_file import Damage
from amplifier_foundation.store.reader import SessionReader
from amplifier_foundation.store.session_store import SessionStore
from amplifier_foundation.store.writer import SessionWriter
from amplifier_journal.records import Record
from amplifier_kit.writer_lock import Holder

__all__ = [
    "AmbiguousSessionError",
    "Damage",
    "Holder",
    "LeaseLostError",
    "Record",
    "SessionExistsError",
    "SessionFullError",
    "SessionHeldError",
    "SessionNotFoundError",
    "SessionReader",
    "SessionStore",
    "SessionSummary",
    "SessionWriter",
    "StoreError",
    "StoreFullError",
]
