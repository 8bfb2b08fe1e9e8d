"""Log records of a command that shows a session: kept in a file beside it, not printed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["KeptLog", "keeping_log"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class KeptLog(logging.Handler):
    """Keeps warnings and errors until the session has a folder, then in a file there.

    What the user has to know is shown as a message of its own; the file has the tracebacks.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter(_FORMAT))
        self._waiting: list[logging.LogRecord] = []
        self._path: Path | None = None
        self._scrub: Callable[[str], str] = str

    def write_to(self, path: Path, scrub: Callable[[str], str]) -> None:
        """Write to this file from now on, without what `scrub` takes out; also what is kept."""
        self._path = path
        self._scrub = scrub
        for record in self._waiting:
            self.handle(record)
        self._waiting.clear()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        if self._path is None:
            self._waiting.append(record)
            return
        try:
            if not self._path.exists():
                self._path.touch(mode=0o600)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{self._scrub(self.format(record))}\n")
        except Exception:  # noqa: BLE001 - as logging does it: a record must not end the work
            self.handleError(record)


@contextmanager
def keeping_log() -> Generator[KeptLog]:
    """Have the log kept instead of printed."""
    root = logging.getLogger()
    log = KeptLog()
    root.addHandler(log)
    try:
        yield log
    finally:
        root.removeHandler(log)
        log.close()
