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
    open_to_append,
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
    """Damage that was found when the file was opened."""

    torn_bytes: int
    damaged_lines: int
    fenced_records: int


class MessageLog:
    """Writes records; each is passed to the operating system before `append` returns.

    With a `scrubber`, secrets that it finds are blanked in every record.
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
        """Lock the file, repair it and read it; blocks.

        Raises:
            ContextInUseError: another process has it open.
            ContextFormatError: a newer version wrote it.
        """
        make_private_folder(path.parent)
        try:
            with opening(path.parent), ExitStack() as undo:
                lock = WriterLock.acquire(path.with_name(f"{path.name}.lock"), takeover=takeover)
                undo.callback(lock.release)
                fd = open_to_append(path)
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
            ValueError: the record contains something that JSON cannot represent.
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
        """Sync to disk; blocks, also while another thread syncs."""
        with self._syncing:
            if self._unsynced:
                # Cleared first: a record that is appended during the fsync needs another one.
                self._unsynced = False
                try:
                    os.fsync(self._open_fd())
                except BaseException:
                    self._unsynced = True
                    raise

    def close(self) -> None:
        """Close the file and release the lock."""
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
        # A crash during a write leaves half a line. It is moved to `.torn` before the file is cut,
        # because nothing of a conversation is deleted.
        if whole < len(data):
            append_new_lines(aside, [data[whole:]])
            os.ftruncate(fd, whole)
        holder = self._lock.sign(max(self._lock.fence, replay.fence) + 1, session_id)
        if not whole:
            append_whole(fd, json_line({"schema": SCHEMA}))
        self.append(opened=holder._asdict())
        # Read again from there: the process that was taken over may have appended a record before
        # ours, which still counts. One after ours has a lower fence and does not.
        replay.feed(read_from(fd, whole))
        append_new_lines(aside, replay.damaged)
        self.sync()
        # Only a synced folder makes sure that a new file is found after a power failure.
        sync_folder(self.path.parent)
        self.messages = replay.messages
        self.recovery = Recovery(len(data) - whole, len(replay.damaged), replay.fenced_out)

    def _open_fd(self) -> int:
        if self._fd is None:
            raise SessionError(f"The conversation `{self.path}` is closed.")
        return self._fd
