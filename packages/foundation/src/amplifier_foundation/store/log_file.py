"""The log file of a session: its lines with their checksums, and the damage they can have."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from zlib import crc32

from amplifier_foundation.store.errors import StoreError, StoreFullError
from amplifier_journal.records import SCHEMA, Record

LEASE = "lease"  # the kind of the line that each writer begins with; it is not a record

# How much damage is listed, and after how many lines without a record reading ends. Without these
# limits, 100 MB of junk take minutes and more memory than there is.
MOST_DAMAGE = 50
MOST_IDLE_LINES = 100_000

_quoted = json.JSONEncoder(ensure_ascii=False).encode

_CHECK = b',"crc":"'
_CHECK_BYTES = len(_CHECK) + 8 + 2


class Damage(NamedTuple):
    """What is wrong with one line of a log; line 0 stands for the whole session.

    The kinds: `unreadable` (no record at all), `checksum` (a byte of it has changed),
    `duplicate`, `gap` (records before it are missing), `fenced` (written by a process that had lost
    the session), `newer` (by a later version), `giant`, `crlf`, `torn` (the last line is cut off),
    `blob` (a large value is missing), `metadata`.
    """

    line: int
    kind: str
    detail: str


class DamageList(list[Damage]):
    """The damage of a log: the first entries, the last one, and a count of the others."""

    def __init__(self, known: Iterable[Damage] = ()) -> None:
        super().__init__(known)
        self._left_out = 0

    def append(self, damage: Damage, /) -> None:
        """Note one more; a log of a gigabyte may have hundreds of millions."""
        if len(self) < MOST_DAMAGE:
            super().append(damage)
            return
        last = damage
        if self._left_out:
            self.pop()
            last = damage._replace(detail=f"{damage.detail} {self._left_out:,} more before it.")
        self._left_out += 1
        super().append(last)


class TooDamagedError(StoreError):
    """So many lines of a log are not records that the rest of it is not read."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"The log of session `{session_id}` is damaged.",
            why=f"More than {MOST_IDLE_LINES:,} of its lines are no records.",
            fix=f"Continue with what comes before them: amplifier session fork {session_id}",
        )


def encode_line(seq: int, at: str, fence: int, kind: str, data: str) -> bytes:
    """Return one line of a log, with a checksum; `data` is JSON."""
    head = f'{{"v":{SCHEMA},"seq":{seq},"at":{_quoted(at)},"fence":{fence},"kind":{_quoted(kind)}'
    body = b'%b,"data":%b' % (head.encode(), encode_json(data))
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def encode_json(text: str) -> bytes:
    """Return JSON as bytes, with all its values unchanged."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # A lone surrogate, as broken tools print it and as the name of a folder can have it: UTF-8
        # cannot encode it, escaped JSON can.
        return json.dumps(json.loads(text), separators=(",", ":")).encode()


def checked(line: bytes) -> bool | None:
    """Return whether a line is as it was written; None if it has no checksum."""
    if line[-_CHECK_BYTES:-10] != _CHECK:
        return None
    try:
        return int(line[-10:-2], 16) == crc32(line[:-_CHECK_BYTES])
    except ValueError:
        return False


class Sieve:
    """Reads the lines of a log in order, and returns the records that count."""

    def __init__(self, session_id: str, report: Callable[[Damage], None]) -> None:
        self._session_id = session_id
        self._report = report
        self.line = 0
        self.seq = 0
        self.fence = 0
        self._after_damage = False
        self._crlf = False
        self._idle = 0

    def skip(self, kind: str, detail: str) -> None:
        """Count one line that is not worth reading."""
        self.line += 1
        self._refuse(kind, detail)

    def take(self, line: bytes) -> Record | None:
        """Return the record in a line (without its end), or None if it does not count.

        Raises:
            TooDamagedError: too many lines were not records.
        """
        self.line += 1
        if line.endswith(b"\r"):
            line = line[:-1]
            if not self._crlf:
                self._crlf = True
                self._report(Damage(self.line, "crlf", "Lines end as Windows ends them."))
        if not line:
            self._count_idle()
            return None
        if checked(line) is False:
            # Refused although it may parse: readers rely on every byte of a record.
            return self._refuse("checksum", f"One of {len(line):,} bytes has changed.")
        fields = _fields(line)
        if fields is None:
            return self._refuse("unreadable", f"{len(line):,} bytes are no record.")
        return self._ordered(*fields)

    def _ordered(self, record: Record, fence: int) -> Record | None:
        # A stopped process may wake up after a takeover and write: its fence is the lower one.
        if fence < self.fence:
            detail = f"Record {record.seq} came from a process that had lost the session."
            return self._refuse("fenced", detail, lost=False)
        self.fence = fence
        if record.kind == LEASE:
            return None
        if record.seq <= self.seq:
            return self._refuse("duplicate", f"Record {record.seq} is there before.", lost=False)
        if record.seq != self.seq + 1 and not self._after_damage:
            missing = record.seq - self.seq - 1
            self._report(Damage(self.line, "gap", f"{missing} records before it are missing."))
        # Before the version is checked, so that the number of a newer record is not used again.
        self.seq = record.seq
        self._after_damage = False
        if record.v > SCHEMA:
            detail = f"Record {record.seq} has version {record.v}; this one reads {SCHEMA}."
            return self._refuse("newer", detail, lost=False)
        return record

    def _refuse(self, kind: str, detail: str, *, lost: bool = True) -> None:
        self._after_damage = self._after_damage or lost
        self._report(Damage(self.line, kind, detail))
        self._count_idle()

    def _count_idle(self) -> None:
        self._idle += 1
        if self._idle > MOST_IDLE_LINES:
            raise TooDamagedError(self._session_id)


def _fields(line: bytes) -> tuple[Record, int] | None:
    """Return the record in a line and the fence of its writer; None if it is not a record."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, Any]", found)
    version = fields.get("v")
    seq = fields.get("seq")
    at = fields.get("at", "")
    fence = fields.get("fence", 0)
    kind = fields.get("kind")
    data = fields.get("data", {})
    if not isinstance(version, int) or not isinstance(seq, int) or not isinstance(fence, int):
        return None
    if version <= SCHEMA and not (isinstance(kind, str) and isinstance(data, dict)):
        return None
    return Record(version, seq, str(at), str(kind), cast("dict[str, Any]", data)), fence


LOG = "log.jsonl"
TORN = "log.torn"
GIANT = 64 * 1024 * 1024  # no line is written that is longer, and none is read
NOT_SAVED = "The last record was not saved"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PIECE = 1024 * 1024


def append_whole(fd: int, line: bytes, still_ours: Callable[[], None]) -> None:
    """Append all of a line, or nothing of it.

    Raises:
        StoreFullError: there is no room for it.
        StoreError: the disk does not take it.
    """
    done = 0
    try:
        done = os.write(fd, line)
        while done < len(line):
            done += os.write(fd, line[done:])
    except OSError as error:
        if done:
            # Half a line would damage the next record; but only who has the lease may truncate.
            still_ours()
            os.ftruncate(fd, os.fstat(fd).st_size - done)
        raise store_error(NOT_SAVED, error) from error


def store_error(what: str, error: OSError) -> StoreError:
    """Return the error for what the disk refused, with what to do about it."""
    kind = StoreFullError if error.errno in _FULL else StoreError
    if kind is StoreFullError:
        remedy = "Make room on the disk."
    else:
        remedy = "Check the disk and its rights."
    return kind(f"{what}.", why=f"{error.strerror or error}. {remedy}", fix="amplifier doctor")


def read_lines(file: BinaryIO) -> Iterator[bytes | int]:
    """Yield the whole lines from the position of `file` on, without their end.

    For a line that is too long, its length is yielded. After the last whole line it stops and
    leaves `file` there, so that a later call continues from it.
    """
    while True:
        start = file.tell()
        line = file.readline(GIANT)
        if line.endswith(b"\n"):
            yield line[:-1]
        elif len(line) == GIANT:
            length = _skip_line(file, len(line))
            if length is None:
                file.seek(start)
                return
            yield length
        else:
            file.seek(start)
            return


def set_torn_aside(file: BinaryIO, fd: int) -> int:
    """Move what follows the position of `file`, half a line, out of the log; return its size.

    A record that is appended to half a line would be lost with it.
    """
    whole = file.tell()
    moved = file.seek(0, os.SEEK_END) - whole
    if moved:
        file.seek(whole)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(Path(file.name).with_name(TORN), flags, 0o600), "ab") as aside:
            while piece := file.read(_PIECE):
                aside.write(piece)
            aside.write(b"\n")
            aside.flush()
            # On disk before the log is cut, so that a crash cannot lose it.
            os.fsync(aside.fileno())
        os.ftruncate(fd, whole)
    return moved


def _skip_line(file: BinaryIO, length: int) -> int | None:
    """Read to the end of a long line and return its length; None if it has no end."""
    while piece := file.readline(_PIECE):
        length += len(piece)
        if piece.endswith(b"\n"):
            return length
    return None
