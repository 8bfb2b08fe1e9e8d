"""The file that records are appended to: private, of bounded size, whole line by whole line."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path

from amplifier_kit.durable_files import append_whole, make_private_folder
from amplifier_module_hooks_logging.config import LoggingConfig


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
        """Return the number of the last record in the log; 0 when there is none."""
        for path in (self.path, self._full(1)):
            if not path.is_file():
                continue
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 2 * self._config.max_record_bytes))
                lines = file.read().splitlines()
            for line in reversed(lines):
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    return int(json.loads(line)["seq"])
        return 0

    def append(self, lines: list[bytes]) -> None:
        """Append lines, and remove from the list those that were appended.

        Raises:
            OSError: a line could not be written; nothing of it is in the file.
        """
        while lines:
            self._open()
            if self._size and self._size + len(lines[0]) > self._config.max_file_bytes:
                self._rotate()
            append_whole(self._open(), lines[0])
            self._size += len(lines.pop(0))

    def sync(self) -> None:
        """Put what was appended onto the disk."""
        if self._fd is not None:
            os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file; appending opens it again."""
        if self._fd is not None:
            fd = self._fd
            self._fd = None
            os.close(fd)

    def _open(self) -> int:
        if self._fd is None:
            make_private_folder(self.path.parent)
            # Whoever can write into the folder must not choose where the log goes.
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self.path, flags, 0o600)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                self.close()
                raise OSError("not a regular file")
            os.fchmod(self._fd, 0o600)
            self._size = os.fstat(self._fd).st_size
            if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
                # A crash left half a line; the next record must not be glued to it.
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
