"""What is shown is kept first: words of an answer and open questions go into the session's log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_cli.render.items import Item, Notice
from amplifier_cli.render.transcript import ASKED, STREAM
from amplifier_foundation.errors import FoundationError

logger = logging.getLogger(__name__)

LOG_NAME = "chat.log"


class Keeper:
    """Writes to the log of the session that is open; a failure is shown once."""

    def __init__(self, put: Callable[[Item], None]) -> None:
        self.writer: Any = None
        self._put = put
        self._has_failed = False

    def keep_words(self, data: dict[str, object]) -> None:
        """Keep words of an answer before they show."""
        self._append(STREAM, data)

    def keep_question(self, data: dict[str, object]) -> None:
        """Keep a question before it shows."""
        self._append(ASKED, data)

    def _append(self, kind: str, data: dict[str, object]) -> None:
        if self.writer is None or self._has_failed:
            return
        try:
            self.writer.append(kind, data)
        except (FoundationError, OSError) as error:
            self._has_failed = True
            logger.debug("not kept kind=%s", kind, exc_info=True)
            self._put(Notice(f"What shows from here on is not kept: {error}", "error", "chat"))


class LogLines(logging.Handler):
    """Log records while the screen is drawn: they go to a file, not across it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(logging.WARNING)
        path = folder / LOG_NAME
        path.touch(mode=0o600)
        self._file = logging.FileHandler(path, encoding="utf-8")
        self._file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write it down."""
        self._file.emit(record)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
