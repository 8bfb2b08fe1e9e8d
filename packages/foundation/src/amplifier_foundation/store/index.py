"""The index of all sessions, for lists; it is built from their folders, and rebuilt if needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from amplifier_foundation.paths import index_file
from amplifier_foundation.store.metadata import Stamp, names, read_metadata, stamps
from amplifier_kit.valid_text import valid_text

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
Progress = Callable[[int, int], None]  # sessions read so far, sessions to read

# The `user_version` in `_TABLES`; a table of another version is made again.
_SCHEMA = 1
_MEMORY = ":memory:"
_TABLES = """
BEGIN IMMEDIATE;
DROP TABLE IF EXISTS sessions;
CREATE TABLE sessions (
    folder TEXT UNIQUE, stamp INTEGER, touched INTEGER, session_id TEXT, project TEXT, title TEXT,
    status TEXT, created_at TEXT, updated_at TEXT, turns INTEGER, cost_usd TEXT, parent_id TEXT,
    bytes INTEGER
);
CREATE INDEX newest ON sessions (touched);
PRAGMA user_version = 1;
COMMIT;
"""
_SUMMARY = (
    "session_id, project, title, status, created_at, updated_at, turns, cost_usd, parent_id, bytes"
)
_WAIT_SECONDS = 5.0
_LARGEST = 2**63 - 1
_WRITERS_WAIT_SECONDS = 0.2  # short, because the next list repairs what a writer could not set
_STEP = 100


class SessionSummary(NamedTuple):
    """What a list shows of one session."""

    session_id: str
    project: str
    title: str
    status: str
    created_at: str
    updated_at: str
    turns: int
    cost_usd: str
    parent_id: str
    bytes: int


class Page(NamedTuple):
    """The newest sessions, and the total number."""

    sessions: list[SessionSummary]
    total: int


class Index:
    """A table with one row for each session; the folders are authoritative."""

    def __init__(self, home: Path, progress: Progress | None = None) -> None:
        self._home, self._path = home, index_file(home)
        self._progress = progress

    def list(
        self, project: str | None = None, limit: int | None = None, part: str = ""
    ) -> list[SessionSummary]:
        """Return the sessions of a project, or of all projects, whose id contains `part`."""
        return self.page(project, limit, part).sessions

    def page(
        self,
        project: str | None = None,
        limit: int | None = None,
        part: str = "",
        *,
        children: bool = True,
    ) -> Page:
        """Return what `list` returns, and how many there would be without the limit."""
        query = f"SELECT {_SUMMARY}, count(*) OVER () FROM sessions WHERE true"
        if not children:
            query = f"{query} AND parent_id = ''"
        values = list[Any]()
        if project is not None:
            query = f"{query} AND project = ?"
            values = [*values, valid_text(project)]
        if part:
            query = f"{query} AND instr(session_id, ?)"
            values = [*values, valid_text(part)]
        query += " ORDER BY touched DESC LIMIT ?"
        rows = self._ask(query, [*values, -1 if limit is None else limit])
        total = rows[0][-1] if rows else 0
        return Page([SessionSummary._make(row[:-1]) for row in rows], total)

    def last(self, project: str | None = None) -> list[SessionSummary]:
        """Return the most recent session that did open, or if none did, one that did not."""
        # Not a child, which is the last one written if a process was killed while it ran.
        query = f"SELECT {_SUMMARY} FROM sessions WHERE parent_id = ''"
        values = list[Any]()
        if project is not None:
            query = f"{query} AND project = ?"
            values = [valid_text(project)]
        # A failed turn makes a session `failed` too, but counts as a turn.
        query += " ORDER BY status = 'failed' AND turns = 0, touched DESC LIMIT 1"
        return [SessionSummary._make(row) for row in self._ask(query, values)]

    def put(self, folder: Path, stamp: Stamp, metadata: dict[str, Any]) -> None:
        """Set the row of one session; after a failure, the next list repairs it."""
        row = _row(os.fspath(folder.relative_to(self._home)), stamp, metadata)
        self._attempt(lambda table: _write(table, [row]))

    def remove(self, folder: Path) -> None:
        """Delete the row of one session; after a failure, the next list repairs it."""
        name = os.fspath(folder.relative_to(self._home))
        self._attempt(lambda table: table.execute("DELETE FROM sessions WHERE folder = ?", (name,)))

    def newest(self) -> int:
        """Return the highest number by which sessions are ordered; 0 if there is none."""
        newest = "SELECT max(touched) FROM sessions"
        found: Any = self._attempt(lambda table: table.execute(newest).fetchone())
        return found[0] or 0 if found else 0

    def problems(self) -> list[str]:
        """Return what is wrong with the table, without repairing it."""
        import sqlite3  # noqa: PLC0415 - a reader of one session does without

        if not self._path.exists():
            return []
        try:
            with _connected(os.fspath(self._path), _WAIT_SECONDS) as table:
                (state,) = table.execute("PRAGMA quick_check(1)").fetchone()
                known = dict(table.execute("SELECT folder, stamp FROM sessions"))
        except sqlite3.Error as error:
            return [f"it cannot be read: {error}"]
        there = self._there()
        changed = [folder for folder, stamp in there.items() if known.get(folder) != stamp]
        # Metadata of other programs has no row, and is not a difference.
        differ = sum(folder in known or self._is_session(folder) for folder in changed)
        differ += sum(folder not in there for folder in known)
        wrong = [] if state == "ok" else [f"it is damaged: {state}"]
        return [*wrong, *([f"{differ:,} sessions are not as it says"] if differ else [])]

    def rebuild(self) -> int:
        """Rebuild the table from the folders, and return how many sessions there are."""
        self._discard()
        return len(self.list())

    def folders(self) -> Generator[Path]:
        """Yield the folder of every session on disk, indexed or not."""
        for sessions in map(self._home.joinpath, _sessions(self._home)):
            yield from map(sessions.joinpath, names(sessions))

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run `work` on the table; return None if the table is busy or broken."""
        import sqlite3  # noqa: PLC0415 - a reader of one session does without

        try:
            with _connected(os.fspath(self._path), _WRITERS_WAIT_SECONDS) as table:
                return work(table)
        except sqlite3.Error as error:
            self._log("INFO", "index not updated, the next list does it", error)
            return None

    def _ask(self, query: str, values: list[Any]) -> list[tuple[Any, ...]]:
        """Refresh the table from the folders, rebuilding it if it is broken, then query it."""
        import sqlite3  # noqa: PLC0415 - a reader of one session does without

        if not self._home.is_dir():
            return []
        try:
            return self._asked(os.fspath(self._path), query, values)
        except sqlite3.Error as error:
            self._log("WARNING", "index unusable, made again", error)
            unusable = _is_broken(error)
        if unusable:
            self._discard()
            try:
                return self._asked(os.fspath(self._path), query, values)
            except sqlite3.Error as again:
                self._log("WARNING", "index cannot be kept", again)
        # Busy, or not writable: a table in memory costs reading all folders, but answers.
        return self._asked(_MEMORY, query, values)

    def _discard(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                self._path.with_name(self._path.name + suffix).unlink()

    def _log(self, level: str, what: str, error: Exception) -> None:
        import logging  # noqa: PLC0415 - it takes longer than to list all sessions

        number = logging.getLevelNamesMapping()[level]
        logging.getLogger(__name__).log(number, "%s path=%s", what, self._path, exc_info=error)

    def _asked(self, path: str, query: str, values: list[Any]) -> list[tuple[Any, ...]]:
        with _connected(path, _WAIT_SECONDS) as table:
            self._refresh(table)
            return table.execute(query, values).fetchall()

    def _refresh(self, table: sqlite3.Connection) -> None:
        """Update the rows of sessions that have changed on disk since."""
        there = self._there()
        known = dict(table.execute("SELECT folder, stamp FROM sessions"))
        if there == known:
            return
        changed = [each for each in there.items() if known.get(each[0]) != each[1]]
        # Read before the transaction begins, so that writers do not wait for all these files.
        rows = list(self._read(changed))
        unchanged = there.keys() - dict(changed).keys()
        sessions = unchanged | {row[0] for row in rows}
        gone = [(folder,) for folder in known if folder not in sessions]
        table.execute("BEGIN IMMEDIATE")
        table.executemany("DELETE FROM sessions WHERE folder = ?", gone)
        _write(table, rows)
        table.execute("COMMIT")

    def _there(self) -> dict[str, Stamp]:
        """Return the stamp of the folder of every session on disk."""
        there: dict[str, Stamp] = {}
        for sessions in _sessions(self._home):
            there.update(stamps(self._home, sessions))
        return there

    def _is_session(self, folder: str) -> bool:
        metadata, _ = read_metadata(self._home / folder)
        return "session_id" in metadata

    def _read(self, changed: list[tuple[str, Stamp]]) -> Generator[tuple[Any, ...]]:
        for number, (folder, stamp) in enumerate(changed, 1):
            metadata, _ = read_metadata(self._home / folder)
            if "session_id" in metadata:
                yield _row(folder, stamp, metadata)
            if self._progress is not None and (number % _STEP == 0 or number == len(changed)):
                self._progress(number, len(changed))


@contextmanager
def _connected(path: str, wait_seconds: float) -> Generator[sqlite3.Connection]:
    import sqlite3  # noqa: PLC0415 - a reader of one session does without

    if path != _MEMORY:
        # SQLite would create it readable for others. Only a new file may be opened and closed
        # here: closing any descriptor of a database drops SQLite's POSIX locks on it.
        with suppress(OSError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    table = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)
    try:
        if table.execute("PRAGMA user_version").fetchone()[0] != _SCHEMA:
            table.execute("PRAGMA journal_mode = WAL")
            table.executescript(_TABLES)
        # A power failure may lose rows, which costs one reading of the folders.
        table.execute("PRAGMA synchronous = OFF")
        yield table
    finally:
        table.close()


def _is_broken(error: sqlite3.Error) -> bool:
    """Return whether the file is corrupt, and not just busy or not writable."""
    import sqlite3  # noqa: PLC0415 - a reader of one session does without

    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    elsewhere = (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
    )
    return code not in elsewhere


def _sessions(home: Path) -> Generator[str]:
    """Yield the folder of each project's sessions, as `home` has it."""
    for project in names(home / "projects"):
        yield f"projects/{project}/sessions"


def _write(table: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * 13)
    table.executemany(f"INSERT OR REPLACE INTO sessions VALUES ({marks})", rows)


def _row(folder: str, stamp: Stamp, metadata: dict[str, Any]) -> tuple[Any, ...]:
    """Return the row of a session; its metadata is untrusted and may have any types."""

    def text(name: str) -> str:
        value = metadata.get(name)
        # The name of a folder may be any bytes, which SQLite does not accept as text.
        if value is None:
            return ""
        return valid_text(str(value))

    def number(name: str) -> int:
        value = metadata.get(name)
        if isinstance(value, int) and abs(value) <= _LARGEST:
            return value
        return 0

    return (
        folder,
        stamp,
        number("touched") or _microseconds(text("updated_at")),
        text("session_id"),
        text("project"),
        text("title"),
        text("status"),
        text("created_at"),
        text("updated_at"),
        number("turns"),
        text("cost_usd"),
        text("parent_id"),
        number("bytes"),
    )


def _microseconds(at: str) -> int:
    """Return an ISO time as a number; 0 if it is not one."""
    try:
        return int(datetime.fromisoformat(at).timestamp() * 1_000_000)
    except ValueError:
        return 0
