"""Write the words of an answer to the session's log before they are shown."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from amplifier_journal.readings.items import STREAM, Item, Notice
from amplifier_kit.explained_error import ExplainedError

logger = logging.getLogger(__name__)

LOG_NAME = "chat.log"


class TranscriptWriter:
    """Writes to the log of the open session; a failure is shown once."""

    def __init__(self, put: Callable[[Item], None]) -> None:
        self.writer: Any = None
        self._put = put
        self._has_failed = False

    def keep_words(self, data: dict[str, object]) -> None:
        """Write words of an answer to the log."""
        if self.writer is None or self._has_failed:
            return
        try:
            self.writer.append(STREAM, data)
        except (ExplainedError, OSError) as error:
            self._has_failed = True
            logger.debug("words not kept", exc_info=True)
            self._put(Notice(f"What shows from here on is not kept: {error}", "error", "chat"))
