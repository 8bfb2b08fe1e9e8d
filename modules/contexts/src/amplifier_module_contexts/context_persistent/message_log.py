"""The message log: an append-only file of JSON lines with one writer."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from amplifier_core.errors import SessionError
from amplifier_kit.durable_files import (
    append_new_lines,
    append_whole,
    make_private_folder,
    read_from,
    sync_folder,
)
from amplifier_kit.secrets.messages import MessageScrubber
from amplifier_kit.writer_lock import HeldError, LostError, WriterLock, opening
from amplifier_module_contexts.context_persistent.errors import (
    ContextFencedError,
    ContextInUseError,
)
from amplifier_module_contexts.context_persistent.replay import SCHEMA, Replay
from amplifier_module_contexts.lines import json_line


class Recovery(NamedTuple):
    """What was not as it should be when the file was opened."""

    torn_bytes: int
    damaged_lines: int
    fenced_records: int


class MessageLog:
    """Writes records; each is in the hands of the operating system when `append` returns.

    With a `scrubber`, no secret that it finds is in any of them.
    """

    def __init__(
        self, fd: int, lock: WriterLock, path: Path, scrubber: MessageScrubber | None
    ) -> None:
        self._fd: int | None = fd
        self._lock = lock
        self._syncing = Lock()
        self._unsynced = False
        self.path = path
        self.scrubber = scrubber
        self.messages: list[dict[str, Any]] = []
        self.recovery = Recovery(0, 0, 0)

    @classmethod
    def open(
        cls,
        path: Path,
        session_id: str,
        *,
        takeover: bool = False,
        scrubber: MessageScrubber | None = None,
    ) -> MessageLog:
        """Open the file as its only writer, make it sound, and read it; blocks.

        Raises:
            ContextInUseError: another process has it open.
            ContextFormatError: a newer version wrote it.
        """
        make_private_folder(path.parent)
        try:
            with opening(path.parent), ExitStack() as undo:
                lock = WriterLock.acquire(path.with_name(f"{path.name}.lock"), takeover=takeover)
                undo.callback(lock.release)
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                undo.callback(os.close, fd)
                log = cls(fd, lock, path, scrubber)
                log._load(session_id)
                undo.pop_all()
                return log
        except HeldError as held:
            raise ContextInUseError(path, held.holder) from held

    def append(self, **record: Any) -> None:
        """Write one record.

        Raises:
            ContextFencedError: another process has taken over; nothing was written.
            ValueError: the record holds something that JSON cannot.
        """
        fd = self._open_fd()
        record = {"fence": self._lock.fence, **record}
        line = json_line(record, self.scrubber and self.scrubber.scrub)
        try:
            self._lock.require()
        except LostError as lost:
            raise ContextFencedError(self.path) from lost
        self._unsynced = True
        append_whole(fd, line)

    def sync(self) -> None:
        """Put what was written onto the disk; blocks, also while another thread does it."""
        with self._syncing:
            if self._unsynced:
                self._unsynced = False
                try:
                    os.fsync(self._open_fd())
                except BaseException:
                    self._unsynced = True
                    raise

    def close(self) -> None:
        """Close the file and let the next process in."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._lock.release()

    def _load(self, session_id: str) -> None:
        fd = self._open_fd()
        replay = Replay()
        aside = self.path.with_name(f"{self.path.name}.torn")
        data = read_from(fd, 0)
        whole = data.rfind(b"\n") + 1
        replay.feed(data[:whole])
        if whole < len(data):
            append_new_lines(aside, [data[whole:]])
            os.ftruncate(fd, whole)
        holder = self._lock.sign(max(self._lock.fence, replay.fence) + 1, session_id)
        if not whole:
            append_whole(fd, json_line({"schema": SCHEMA}))
        self.append(opened=holder._asdict())
        # A process that was just taken over may have written one more record before this one.
        replay.feed(read_from(fd, whole))
        append_new_lines(aside, replay.damaged)
        self.sync()
        sync_folder(self.path.parent)
        self.messages = replay.messages
        self.recovery = Recovery(len(data) - whole, len(replay.damaged), replay.fenced_out)

    def _open_fd(self) -> int:
        if self._fd is None:
            raise SessionError(f"The conversation `{self.path}` is closed.")
        return self._fd
