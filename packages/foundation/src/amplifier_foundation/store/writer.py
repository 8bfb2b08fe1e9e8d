"""The writer of a session: the one process that may append to its log."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Self

from amplifier_foundation.store.blobs import LARGE, Blobs, shelve
from amplifier_foundation.store.errors import LeaseLostError, SessionFullError, StoreError
from amplifier_foundation.store.index import Index
from amplifier_foundation.store.lease import Lease
from amplifier_foundation.store.log_file import (
    GIANT,
    LEASE,
    LOG,
    NOT_SAVED,
    Damage,
    DamageList,
    Sieve,
    append_whole,
    encode_line,
    read_lines,
    set_torn_aside,
    store_error,
)
from amplifier_foundation.store.metadata import write_metadata
from amplifier_journal.records import Record, json_text, now
from amplifier_kit.durable_files import open_to_append, remove_unfinished, sync_folder

Scrub = Callable[[Any], Any]

_REFERENCE = re.compile(rb'"\$blob":"[0-9a-f]{64}","chars":(\d+)')


class SessionWriter:
    """Appends records; each has reached the operating system when `append` returns.

    So a killed process loses nothing; `sync` protects against a power failure as well.
    """

    def __init__(
        self,
        folder: Path,
        metadata: dict[str, Any],
        lease: Lease,
        *,
        blobs: Blobs,
        index: Index,
        limit: int,
        scrub: Scrub | None,
    ) -> None:
        self.folder = folder
        self.metadata = metadata
        self.session_id: str = metadata["session_id"]
        self.damage: list[Damage] = DamageList()
        # Called with each line that was written and counts, in the order of the log.
        self.announce: Callable[[bytes], None] | None = None
        self._lease = lease
        self._blobs = blobs
        self._index = index
        self._limit = limit
        self._scrub = scrub
        self._writing, self._syncing = Lock(), Lock()
        self._unsynced = self._changed = False
        self._failure: StoreError | None = None
        self._seq = self._bytes = 0
        self._fd: int | None = open_to_append(folder / LOG)
        try:
            self._load()
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self._seq

    @property
    def bytes(self) -> int:
        """The size of the session: its log and the large strings that it refers to."""
        return self._bytes

    def append(self, kind: str, data: dict[str, Any], *, is_clean: bool = False) -> int:
        """Write one record and return its number; with `is_clean` it is not scrubbed again.

        Raises:
            LeaseLostError: another process has taken the session over.
            SessionFullError: the session has reached its size limit; nothing was written.
            StoreFullError: the disk is full; nothing was written.
            StoreError: the disk failed; what was written before can still be read.
            ValueError: the record has something in it that JSON cannot represent.
        """
        if kind == LEASE:
            raise ValueError(f"Records of kind `{LEASE}` are the store's own.")
        text, exact = json_text(data)
        if self._scrub is not None and not is_clean:
            given = data if exact else json.loads(text)
            clean = self._scrub(given)
            if clean is not given:
                text, _ = json_text(clean)
        with self._writing:
            if len(text) <= LARGE and '"$' not in text:
                return self._append(kind, text)
            try:
                # Until its record is written, a blob has no reference and could be swept.
                with self._blobs.in_use():
                    return self._append(kind, *self._shelved(text))
            except OSError as error:
                raise store_error(NOT_SAVED, error) from error

    def sync(self) -> None:
        """Flush what was written to disk; blocks, also while another thread does it.

        Raises:
            StoreError: it is unknown what is on disk; the session accepts no more records.
        """
        with self._syncing:
            fd = self._open_fd()
            if self._unsynced:
                # Reset before the flush: a record that another thread appends now needs the next.
                self._unsynced = False
                try:
                    os.fsync(fd)
                except OSError as error:
                    # The system may drop the pages that it could not write, and the next fsync
                    # then succeeds: only failing from here on is honest.
                    self._failure = store_error("The disk did not save the session", error)
                    raise self._failure from error

    def update(self, **fields: Any) -> None:
        """Set fields of the metadata, durably, and in the list of sessions.

        Raises:
            LeaseLostError: another process has taken the session over.
            StoreError: it cannot be written; the old metadata is still there.
        """
        with self._syncing:
            self._update(fields)

    def close(self) -> None:
        """Save everything and release the lease; a second call does nothing."""
        if self._fd is None:
            return
        try:
            if self._failure is None:
                self.sync()
                if self._changed:
                    self.update()
        except LeaseLostError:
            # Everything up to the takeover is in the log, and the new writer continues from there.
            pass
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the lease without saving anything more."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._lease.release()

    def adopt(self, records: Iterable[Record]) -> None:
        """Write the records of another session, under their own numbers; for a fork.

        They are copied as stored: large strings stay references, and nothing is scrubbed again.
        """
        for record in records:
            text = json_text(record.data)[0]
            line = encode_line(record.seq, record.at, self._lease.fence, record.kind, text)
            self._write(line, _referred(line))
            self._seq = record.seq

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _update(self, fields: dict[str, Any]) -> None:
        self._open_fd()
        self._lease.require()
        # Higher than any other session's even if the clock was set back: lists are sorted by it.
        touched = max(time.time_ns() // 1000, self._index.newest() + 1)
        facts = {"updated_at": now(), "touched": touched, "bytes": self._bytes}
        metadata = {**self.metadata, **facts, **fields}
        try:
            stamp = write_metadata(self.folder, metadata, self._lease.require)
        except OSError as error:
            raise store_error("The session's metadata was not saved", error) from error
        self.metadata = metadata
        self._changed = False
        self._index.put(self.folder, stamp, metadata)

    def _append(self, kind: str, text: str, shelved: int = 0) -> int:
        line = encode_line(self._seq + 1, now(), self._lease.fence, kind, text)
        self._write(line, shelved)
        self._seq += 1
        # Checked after the write too: after a takeover just before it, the record does not count.
        self._lease.require()
        if self.announce is not None:
            self.announce(line)
        return self._seq

    def _write(self, line: bytes, shelved: int) -> None:
        fd = self._open_fd()
        self._require_room(len(line) + shelved)
        if len(line) > GIANT:
            raise ValueError(f"A record of {len(line):,} bytes is larger than {GIANT:,}.")
        self._lease.require()
        append_whole(fd, line, self._lease.require)
        self._bytes += len(line) + shelved
        self._unsynced = self._changed = True

    def _shelved(self, text: str) -> tuple[str, int]:
        """Return the data with its large strings moved to blobs, and the size of those."""
        shelved = 0

        def put(large: str) -> str:
            nonlocal shelved
            shelved += len(large)
            self._require_room(shelved)
            return self._blobs.put(large)

        return json_text(shelve(json.loads(text), put))[0], shelved

    def _require_room(self, more: int) -> None:
        if self._bytes + more > self._limit:
            raise SessionFullError(self.session_id, self._limit)

    def _load(self) -> None:
        """Find the end of the log, move half a line aside, and record the new writer."""
        sieve = Sieve(self.session_id, self.damage.append)
        fd = self._open_fd()
        with (self.folder / LOG).open("rb") as file:
            self._scan(file, sieve)
            whole = file.tell()
            torn = set_torn_aside(file, fd)
            if torn:
                self.damage.append(Damage(sieve.line + 1, "torn", f"{torn:,} bytes set aside."))
            holder = self._lease.sign(sieve.fence)
            who = {**holder._asdict(), "project": self.metadata.get("project", "")}
            line = encode_line(sieve.seq, now(), holder.fence, LEASE, json_text(who)[0])
            append_whole(fd, line, self._lease.require)
            # A process that was just taken over may have written one more record before this line,
            # which counts: its number must not be used again.
            file.seek(whole)
            self._scan(file, sieve)
            self._bytes += file.tell()
        self._seq = sieve.seq
        self._unsynced = True
        self.sync()
        sync_folder(self.folder)
        remove_unfinished(self.folder)

    def _scan(self, file: BinaryIO, sieve: Sieve) -> None:
        for line in read_lines(file):
            if isinstance(line, int):
                sieve.skip("giant", f"{line:,} bytes in one line.")
                continue
            sieve.take(line)
            if b'"$blob"' in line:
                self._bytes += _referred(line)

    def _open_fd(self) -> int:
        if self._failure is not None:
            raise self._failure
        if self._fd is None:
            raise StoreError(f"Session `{self.session_id}` is closed.")
        return self._fd


def _referred(line: bytes) -> int:
    return sum(int(chars) for chars in _REFERENCE.findall(line))
