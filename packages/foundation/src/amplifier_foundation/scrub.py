"""Remove secrets from a session that is already stored."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

from amplifier_foundation.bundles.providers import KEYS
from amplifier_foundation.credentials import find_key
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.store import SessionStore
from amplifier_foundation.store.rewrite import other_files
from amplifier_kit.secrets.errors import scrub_error
from amplifier_kit.secrets.known import known_secrets
from amplifier_kit.secrets.scrubber import Scrubber

__all__ = ["Scrubbed", "blank_known_secrets", "find_secrets", "scrub_session"]


class Scrubbed(NamedTuple):
    """The result: the number of records, and other files that were changed or removed.

    `unsure` names sessions that cannot be read completely. They may refer to any large text, so
    none is deleted, and a secret in one may still be on disk.
    """

    records: int
    files: list[str]
    unsure: list[str]


def find_secrets(store: SessionStore, session_id: str, further: Iterable[str] = ()) -> Counter[str]:
    """Return how many secrets of each kind are in a session, including all files in its folder."""
    scrubber = _scrubber(further)
    found = Counter[str]()
    reader = store.read(session_id)
    for data in (reader.metadata, *(record.data for record in reader.records())):
        found += scrubber.scrub(data)[1]
    for path in other_files(reader.folder):
        # Files of modules may have any bytes.
        found += scrubber.scrub_text(path.read_text("utf-8", "surrogateescape"))[1]
    return found


def scrub_session(store: SessionStore, session_id: str, further: Iterable[str] = ()) -> Scrubbed:
    """Blank the secrets of a session in place; its id, sequence numbers and times stay.

    Raises:
        SessionHeldError: a process writes the session.
        StoreError: it could not be rewritten, and is unchanged.
    """
    scrubber = _scrubber(further)

    def change(value: Any) -> Any:
        return scrubber.scrub(value)[0]

    # Rewriting stores scrubbed copies of large texts; the originals go when they are swept.
    records, files = store.rewrite(session_id, change)
    swept = store.retention().apply().blobs
    return Scrubbed(records, files, swept.unsure)


def blank_known_secrets(error: BaseException) -> None:
    """Blank the user's keys, and what has the form of a key, in an exception that is shown."""
    try:
        known = _scrubber(()).known
    except FoundationError:
        # The file with the keys cannot be read, which may be the very error that is shown.
        known = known_secrets(_NO_SESSION)
    scrubber = Scrubber(known, guesses=False)
    scrub_error(error, lambda text: scrubber.scrub_text(text)[0])


def _scrubber(further: Iterable[str]) -> Scrubber:
    environ = dict(os.environ)
    for name in (each for names in KEYS.values() for each in names):
        key = find_key(name)
        if key is not None:
            environ[name] = key.value
    # The name has to say that it is a secret, or `known_secrets` would ignore the value.
    environ |= {f"GIVEN_SECRET_{number}": value for number, value in enumerate(further, start=1)}
    return Scrubber(known_secrets(_NO_SESSION, environ))


def _nothing(name: str) -> None:
    return None


_NO_SESSION = SimpleNamespace(config={}, get_capability=_nothing)
