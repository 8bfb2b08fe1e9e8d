"""Read the records of a session, also while another process writes them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, BinaryIO

from amplifier_foundation.store.blobs import Blobs, unshelve
from amplifier_foundation.store.lease import holder_of
from amplifier_foundation.store.log_file import (
    LOG,
    Damage,
    DamageList,
    Sieve,
    TooDamagedError,
    read_lines,
)
from amplifier_foundation.store.metadata import read_metadata
from amplifier_journal.records import Record
from amplifier_kit.writer_lock import Holder

_POLL_SECONDS = 0.05


class SessionReader:
    """Reads a session as far as possible; `damage` lists the rest once the records were read."""

    def __init__(self, folder: Path, session_id: str, blobs: Blobs) -> None:
        self.folder = folder
        self.session_id = session_id
        self.metadata, wrong = read_metadata(folder)
        self._known = [Damage(0, "metadata", wrong)] if wrong else []
        self.damage: list[Damage] = DamageList(self._known)
        self._blobs = blobs

    @property
    def holder(self) -> Holder | None:
        """The process that writes the session now, or None."""
        return holder_of(self.folder)

    def records(self, after: int = 0) -> Generator[Record]:
        """Yield the records after number `after`, in order."""
        self.damage = DamageList(self._known)
        try:
            file = (self.folder / LOG).open("rb")
        except FileNotFoundError:
            self.damage.append(Damage(0, "unreadable", "There is no log."))
            return
        with file:
            sieve = Sieve(self.session_id, self._report)
            for record, special in self._passing(file, sieve):
                if record.seq > after:
                    yield self._unshelved(record, sieve.line) if special else record
            whole = file.tell()
            if rest := file.seek(0, os.SEEK_END) - whole:
                self._report(Damage(sieve.line + 1, "torn", f"{rest:,} bytes have no end."))

    def stored(self, upto: int | None = None) -> Generator[Record]:
        """Yield the records up to number `upto` as they are stored, without reading blobs."""
        with (self.folder / LOG).open("rb") as file:
            for record, _ in self._passing(file, Sieve(self.session_id, self._report)):
                if upto is not None and record.seq > upto:
                    return
                yield record

    async def tail(self, after: int = 0) -> AsyncGenerator[Record]:
        """Yield the records after number `after`, and then each as it is written.

        It continues when another process takes the session over, and ends when it is deleted.
        """
        from asyncio import sleep  # noqa: PLC0415 - most commands only read what is there

        seen = after
        # Opened again whenever the file is replaced; records that were seen are skipped.
        while (file := _opened(self.folder / LOG)) is not None:
            with file:
                sieve = Sieve(self.session_id, self._report)
                while _in_place(file):
                    for record, special in self._passing(file, sieve):
                        if record.seq > seen:
                            seen = record.seq
                            yield self._unshelved(record, sieve.line) if special else record
                    await sleep(_POLL_SECONDS)

    def _passing(self, file: BinaryIO, sieve: Sieve) -> Generator[tuple[Record, bool]]:
        """Yield the records that count, and whether they may have references to blobs."""
        for line in read_lines(file):
            try:
                if isinstance(line, int):
                    sieve.skip("giant", f"{line:,} bytes in one line.")
                    continue
                record = sieve.take(line)
            except TooDamagedError as error:
                self._report(Damage(sieve.line, "unreadable", f"{error.why} The rest is not read."))
                file.seek(0, os.SEEK_END)
                return
            if record:
                yield record, b'"$' in line

    def _unshelved(self, record: Record, line: int) -> Record:
        def get(digest: str, reference: dict[str, Any]) -> Any:
            text = self._blobs.get(digest)
            if text is None:
                self._report(Damage(line, "blob", f"Record {record.seq} lacks blob {digest}."))
                return reference
            return text

        return record._replace(data=unshelve(record.data, get))

    def _report(self, damage: Damage) -> None:
        self.damage.append(damage)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _in_place(file: BinaryIO) -> bool:
    """Return whether an open file is still the one at its path; a migration replaces it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), Path(file.name).stat())
    except FileNotFoundError:
        return False
