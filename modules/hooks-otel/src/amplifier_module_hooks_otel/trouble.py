"""Saying that something is not recorded or not sent: once for each cause, from any thread."""

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
# By its log, and in no other way, the SDK tells that it drops spans or cannot send them.
_SDK_LOGS = ("opentelemetry.sdk", "opentelemetry.exporter")


class Trouble(logging.Handler):
    """Tells the hooks and the person of one session."""

    def __init__(self, coordinator: Any) -> None:
        super().__init__(logging.WARNING)
        self._coordinator = coordinator
        self._loop = asyncio.get_running_loop()
        self._told: dict[str, asyncio.Task[Any]] = {}
        for each in _SDK_LOGS:
            logging.getLogger(each).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Tell what the SDK complains of, unless it still tries."""
        if record.levelno >= logging.ERROR or not record.name.startswith(_SDK_LOGS[1]):
            # A receiver's own words may be in it.
            complaint, _ = Scrubber().scrub_text(record.getMessage()[:_MOST_CHARS_READ])
            line = f"OpenTelemetry data is lost: {visible(complaint[:_MOST_CHARS])}"
            self.tell("not_exported", line)

    def tell(self, cause: str, line: str) -> None:
        """Tell it soon; never waits, and never raises: with the loop, its audience is gone."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, cause, line)

    async def settle(self) -> None:
        """Listen to the SDK no more, and wait until all that was told has arrived."""
        for each in _SDK_LOGS:
            logging.getLogger(each).removeHandler(self)
        await asyncio.sleep(0)
        await asyncio.gather(*self._told.values())

    def _tell(self, cause: str, line: str) -> None:
        if cause not in self._told:
            show(self._coordinator, line, source=NAME)
            announcing = self._coordinator.hooks.emit(DEGRADED, {"cause": cause, "message": line})
            self._told[cause] = self._loop.create_task(announcing)
