"""Write log records to a file in the session's folder instead of printing them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["KeptLog", "keeping_log"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class KeptLog(logging.Handler):
    """Buffers warnings and errors until the session has a folder, then writes them there.

    The user gets a message for anything that matters; the file has the tracebacks.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter(_FORMAT))
        self._waiting: list[logging.LogRecord] = []
        self._path: Path | None = None
        self._scrub: Callable[[str], str] = str

    def write_to(self, path: Path, scrub: Callable[[str], str]) -> None:
        """Write the buffered and all later records to this file, each passed through `scrub`."""
        self._path = path
        self._scrub = scrub
        for record in self._waiting:
            self.handle(record)
        self._waiting.clear()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or buffer it while there is no file."""
        if self._path is None:
            self._waiting.append(record)
            return
        try:
            # Created with the first record, so that a run without warnings leaves no file.
            if not self._path.exists():
                self._path.touch(mode=0o600)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{self._scrub(self.format(record))}\n")
        except Exception:  # noqa: BLE001 - like every logging handler: must not raise
            self.handleError(record)


@contextmanager
def keeping_log() -> Generator[KeptLog]:
    """Collect log records instead of printing them."""
    # With a handler on the root logger, logging's last resort does not print to stderr.
    root = logging.getLogger()
    log = KeptLog()
    root.addHandler(log)
    try:
        yield log
    finally:
        root.removeHandler(log)
        log.close()
