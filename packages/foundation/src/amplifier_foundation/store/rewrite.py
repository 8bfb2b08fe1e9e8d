"""Rewrite a session in place: the same records, under the same numbers, changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.store.blobs import Blobs, shelve
from amplifier_foundation.store.errors import StoreError
from amplifier_foundation.store.index import Index
from amplifier_foundation.store.lease import Lease, taking
from amplifier_foundation.store.log_file import LEASE, LOG, TORN, Sieve, encode_line, read_lines
from amplifier_foundation.store.metadata import METADATA, read_metadata, write_metadata
from amplifier_foundation.store.reader import SessionReader
from amplifier_journal.records import json_text, now
from amplifier_kit.durable_files import remove_unfinished, sync_folder, write_whole

__all__ = ["Rewritten", "other_files", "rewrite_session"]

_NEW = "log.new"
_OLD = "log.old"
# Copies of records or metadata, which are removed: a secret would survive in them.
_COPIES = (TORN, "metadata.damaged", "metadata.v*.json", "log.v*.jsonl", _OLD)

Change = Callable[[Any], Any]


class Rewritten(NamedTuple):
    """How many records a session has, and which other files of it were changed or removed."""

    records: int
    files: list[str]


def rewrite_session(
    folder: Path, session_id: str, blobs: Blobs, index: Index, change: Change
) -> Rewritten:
    """Write every record, the metadata and the other files of a session as `change` returns them.

    The new log is complete and verified before it replaces the old one, which is kept until
    everything else is done. Lines that no reader can read are left out.

    Raises:
        SessionHeldError: a process writes the session.
        StoreError: the new log lacks records of the old one; nothing was changed.
    """
    with taking(folder, session_id) as lease:
        metadata, _ = read_metadata(folder)
        facts: dict[str, Any] = {**change(metadata), "session_id": session_id}
        with blobs.in_use():
            count = _write_log(
                folder, facts, lease, SessionReader(folder, session_id, blobs), change, blobs
            )
            _swap(folder)
        stamp = write_metadata(folder, facts)
        changed = [each.name for each in other_files(folder) if _change_file(each, change)]
        for pattern in _COPIES:
            for copy in folder.glob(pattern):
                copy.unlink()
        sync_folder(folder)
        remove_unfinished(folder)
        lease.release()
    if facts == metadata:
        index.put(folder, stamp, facts)
    else:
        # SQLite keeps overwritten values in its file for a while, so the file is made again.
        index.rebuild()
    return Rewritten(count, changed)


def other_files(folder: Path) -> Generator[Path]:
    """Yield the files that modules and apps keep in a session's folder."""
    for path in sorted(folder.rglob("*")):
        own = path.parent == folder and path.name in (LOG, METADATA, _NEW, _OLD)
        if path.is_file() and not path.is_symlink() and not own and path.suffix != ".lock":
            yield path


def _write_log(
    folder: Path,
    facts: dict[str, Any],
    lease: Lease,
    reader: SessionReader,
    change: Change,
    blobs: Blobs,
) -> int:
    """Write the new log beside the old one, read it back, and return its number of records."""
    fence = lease.sign(_last_fence(folder, reader.session_id)).fence
    who = {"session_id": facts["session_id"], "project": facts.get("project", "")}
    (folder / _NEW).unlink(missing_ok=True)
    fd = os.open(folder / _NEW, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    count = 0
    with os.fdopen(fd, "wb") as file:
        file.write(encode_line(0, now(), fence, LEASE, json_text(who)[0]))
        for record in reader.records():
            data = json_text(shelve(change(record.data), blobs.put))[0]
            file.write(encode_line(record.seq, record.at, fence, record.kind, data))
            count += 1
        file.flush()
        os.fsync(fd)
    found = _sift(folder / _NEW, _sieve(reader.session_id))
    if found != count:
        (folder / _NEW).unlink()
        raise StoreError(
            f"Session `{reader.session_id}` was not changed.",
            why=f"Of {count:,} records only {found:,} could be read again.",
            fix="amplifier doctor",
        )
    return count


def _swap(folder: Path) -> None:
    with suppress(FileNotFoundError):
        # Left by a process that was killed after this point: the log is already the new one.
        (folder / _OLD).unlink()
    with suppress(FileNotFoundError):
        os.link(folder / LOG, folder / _OLD)
    (folder / _NEW).replace(folder / LOG)
    sync_folder(folder)


def _change_file(path: Path, change: Change) -> bool:
    """Change the text of a file, or remove a binary one; return whether either was done."""
    data = path.read_bytes()
    text = data.decode("utf-8", "surrogateescape")
    changed = change(text)
    if changed == text:
        return False
    if "\x00" in text:
        # To its owner, a changed binary file would seem damaged, or worse, intact.
        path.unlink()
    else:
        write_whole(path, changed.encode("utf-8", "surrogateescape"))
    return True


def _last_fence(folder: Path, session_id: str) -> int:
    sieve = _sieve(session_id)
    _sift(folder / LOG, sieve)
    return sieve.fence


def _sieve(session_id: str) -> Sieve:
    return Sieve(session_id, lambda _: None)


def _sift(path: Path, sieve: Sieve) -> int:
    """Pass a log through a sieve, and return how many records count."""
    try:
        with path.open("rb") as file:
            lines = (line for line in read_lines(file) if isinstance(line, bytes))
            return sum(sieve.take(line) is not None for line in lines)
    except FileNotFoundError:
        return 0
