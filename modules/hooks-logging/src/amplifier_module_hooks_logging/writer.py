"""The thread that writes the files, with a bounded queue, so that no session waits for it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from amplifier_kit.durable_files import (
    append_whole,
    make_private_folder,
    read_from,
    sync_content,
)
from amplifier_kit.secrets.scrubber import Scrubber
from amplifier_module_hooks_logging.config import LoggingConfig
from amplifier_module_hooks_logging.records import Entry, Renderer
from amplifier_sandbox.platforms.opening import open_itself

logger = logging.getLogger(__name__)


class EventFile:
    """A log file and the full ones before it: `events.jsonl`, `events.jsonl.1`, ...

    All methods block. An OSError leaves it usable: the next call tries again.
    """

    def __init__(self, path: Path, config: LoggingConfig) -> None:
        self.path = path
        self._config = config
        self._fd: int | None = None
        self._size = 0

    def last_sequence(self) -> int:
        """Return the number of the last record in the log; 0 if there is none."""
        for path in (self.path, self._full(1)):
            if not path.is_file():
                continue
            with path.open("rb") as file:
                # The end of the file is enough: two records fit, of which one may be torn.
                file.seek(max(0, path.stat().st_size - 2 * self._config.max_record_bytes))
                lines = file.read().splitlines()
            for line in reversed(lines):
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    return int(json.loads(line)["seq"])
        return 0

    def append(self, lines: list[bytes]) -> None:
        """Append lines, and remove those that were appended from the list.

        Raises:
            OSError: a line could not be written; no part of it is in the file.
        """
        while lines:
            self._open()
            if self._size and self._size + len(lines[0]) > self._config.max_file_bytes:
                self._rotate()
            append_whole(self._open(), lines[0])
            self._size += len(lines.pop(0))

    def sync(self) -> None:
        """Flush what was appended to disk."""
        if self._fd is not None:
            sync_content(self._fd)

    def close(self) -> None:
        """Close the file; appending opens it again."""
        if self._fd is not None:
            fd = self._fd
            self._fd = None
            os.close(fd)

    def _open(self) -> int:
        if self._fd is None:
            make_private_folder(self.path.parent)
            # A link in the folder must not redirect the log to another file.
            self._fd = open_itself(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                self.close()
                raise OSError("not a regular file")
            # The mode above applies only to a new file; an old one may be open to others.
            if sys.platform != "win32":
                os.fchmod(self._fd, 0o600)
            self._size = os.fstat(self._fd).st_size
            if self._size and read_from(self._fd, self._size - 1) != b"\n":
                # A crash left half a line; the next record must not be appended to it.
                append_whole(self._fd, b"\n")
                self._size += 1
        return self._fd

    def _rotate(self) -> None:
        self.close()
        for number in range(self._config.keep_files - 1, 0, -1):
            if self._full(number).exists():
                self._full(number).replace(self._full(number + 1))
        self.path.replace(self._full(1))

    def _full(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


Tell = Callable[[str], None]

_MOST_AT_ONCE = 256
# How long to wait after a failed write; what is queued meanwhile is dropped and counted.
_RETRY_SECONDS = 5.0


class _Queued(NamedTuple):
    entry: Entry | None
    chars: int
    written: Future[None] | None


class Writer:
    """Writes entries in the order in which they are put.

    `tell` is called once, in the writer's thread, if the file cannot be written, with the reason.
    """

    def __init__(self, path: Path, scrubber: Scrubber, config: LoggingConfig, tell: Tell) -> None:
        self._file = EventFile(path, config)
        self._renderer = Renderer(scrubber, config)
        self._config = config
        self._tell = tell
        self._queue: deque[_Queued] = deque()
        self._chars = 0
        self._woken = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._first_sequence: int | None = None
        self._missing: Counter[str] = Counter()
        self._retry_at: float | None = None
        self._has_told = False

    @property
    def has_room(self) -> bool:
        """Whether the queue accepts more."""
        config = self._config
        return len(self._queue) < config.max_queue_records and self._chars < config.max_queue_chars

    def put(self, entry: Entry, chars: int, *, always: bool) -> bool:
        """Queue an entry; False if the queue is full and the entry is dropped."""
        if not (always or self.has_room):
            self._miss([entry])
            return False
        self._add(_Queued(entry, chars, None))
        return True

    def take_missing(self) -> Counter[str]:
        """Return the counts of missing events, by name, once the file can be written again."""
        with self._woken:
            if not self._missing or not self.has_room or self._retry_at is not None:
                return Counter()
            missing = self._missing
            self._missing = Counter()
            return missing

    def flush(self) -> Future[None]:
        """Return a future that is done when all entries so far are on disk, or have failed."""
        done: Future[None] = Future()
        if self._thread is None or not self._thread.is_alive():
            done.set_result(None)
        else:
            self._add(_Queued(None, 0, done))
        return done

    def close(self, seconds: float) -> bool:
        """Write what is left and end the thread; blocks. False if that takes too long."""
        with self._woken:
            self._closing = True
            self._woken.notify()
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _add(self, queued: _Queued) -> None:
        with self._woken:
            self._queue.append(queued)
            self._chars += queued.chars
            self._woken.notify()
        if self._thread is None:
            # A daemon, because a disk that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="amplifier-log", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while batch := self._take():
                entries = [queued.entry for queued in batch if queued.entry is not None]
                self._write(entries)
                if flushed := [queued.written for queued in batch if queued.written is not None]:
                    self._attempt(self._file.sync)
                    for written in flushed:
                        if written.set_running_or_notify_cancel():
                            written.set_result(None)
        finally:
            self._file.close()

    def _take(self) -> list[_Queued]:
        """Wait for queued entries and return them; an empty list when the writer has to end."""
        with self._woken:
            self._woken.wait_for(lambda: self._queue or self._closing)
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _MOST_AT_ONCE))]
            self._chars -= sum(queued.chars for queued in batch)
            return batch

    def _write(self, entries: list[Entry]) -> None:
        waits = self._retry_at is not None and time.monotonic() < self._retry_at
        # When closing there is no later attempt.
        if entries and (self._closing or not waits):
            self._attempt(lambda: self._append(entries))
        self._miss(entries)

    def _append(self, entries: list[Entry]) -> None:
        """Append as many entries as possible, and remove them from the list."""
        if self._first_sequence is None:
            self._first_sequence = self._file.last_sequence() + 1
        first = self._first_sequence
        lines = [b"".join(self._renderer.render(each, first)) for each in entries]
        try:
            self._file.append(lines)
        finally:
            del entries[: len(entries) - len(lines)]
        self._retry_at = None

    def _attempt(self, action: Callable[[], None]) -> None:
        """Run an action that the disk may refuse; the thread continues whatever happens."""
        try:
            action()
        # Broad, because a bug in rendering must not end the thread: nothing more would be logged.
        except Exception as error:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            if not self._has_told:
                self._has_told = True
                logger.exception("log not written path=%s", self._file.path)
                self._tell(str(error))

    def _miss(self, entries: list[Entry]) -> None:
        with self._woken:
            self._missing.update(entry.event for entry in entries)
