"""Report that something is not recorded or not sent, once for each cause, from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from amplifier_kit.notices import show
from amplifier_kit.secrets.scrubber import Scrubber
from amplifier_sandbox.visible_text import visible

NAME = "hooks-otel"
DEGRADED = "otel:degraded"
_MOST_CHARS = 500
_MOST_CHARS_READ = 10 * _MOST_CHARS
# The SDK reports only in its log that it drops spans or cannot send them.
_SDK_LOGS = ("opentelemetry.sdk", "opentelemetry.exporter")


class Trouble(logging.Handler):
    """Reports to the hooks and the user of one session."""

    def __init__(self, coordinator: Any) -> None:
        super().__init__(logging.WARNING)
        self._coordinator = coordinator
        self._loop = asyncio.get_running_loop()
        self._told: dict[str, asyncio.Task[Any]] = {}
        for each in _SDK_LOGS:
            logging.getLogger(each).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Report a log record of the SDK, unless it is about a retry."""
        # Exporters log a retry as a warning, and giving up as an error.
        if record.levelno >= logging.ERROR or not record.name.startswith(_SDK_LOGS[1]):
            # It may quote what a receiver answered, which is untrusted.
            complaint, _ = Scrubber().scrub_text(record.getMessage()[:_MOST_CHARS_READ])
            line = f"OpenTelemetry data is lost: {visible(complaint[:_MOST_CHARS])}"
            self.tell("not_exported", line)

    def tell(self, cause: str, line: str) -> None:
        """Report a message soon; never waits, and does nothing once the event loop is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, cause, line)

    async def settle(self) -> None:
        """Stop listening to the SDK, and wait until all reports were emitted."""
        for each in _SDK_LOGS:
            logging.getLogger(each).removeHandler(self)
        await asyncio.sleep(0)
        await asyncio.gather(*self._told.values())

    def _tell(self, cause: str, line: str) -> None:
        if cause not in self._told:
            show(self._coordinator, line, source=NAME)
            announcing = self._coordinator.hooks.emit(DEGRADED, {"cause": cause, "message": line})
            self._told[cause] = self._loop.create_task(announcing)
