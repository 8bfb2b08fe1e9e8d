"""The handler of every event: it queues each one for the writer, and does not wait."""

from __future__ import annotations

import asyncio
import logging
import re
from concurrent.futures import Future
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from amplifier_core import events
from amplifier_kit.notices import show
from amplifier_kit.secrets.scrubber import Scrubber
from amplifier_kit.secrets.watch import Watch
from amplifier_kit.session_folder import folder_name, session_folder, working_folder
from amplifier_module_hooks_logging.config import SESSION, LoggingConfig
from amplifier_module_hooks_logging.records import MARGIN_CHARS, Clip, Entry
from amplifier_module_hooks_logging.writer import Writer

logger = logging.getLogger(__name__)

FILE_NAME = "events.jsonl"


def log_path(coordinator: Any, configured: str | None) -> Path:
    """Return the configured file, else the one in the session's folder."""
    if configured is None:
        return session_folder(coordinator) / FILE_NAME
    named = configured.replace(SESSION, folder_name(coordinator.session_id))
    return working_folder(coordinator) / Path(named).expanduser()


NAME = "hooks-logging"
DROPPED = "logging:dropped"
FAILED = "logging:failed"
EVENTS = [DROPPED, FAILED]

# After the redaction, before the guards: an event that a guard denies does not get further.
_EARLY = -900_000
_TURN_ENDS = frozenset({events.ORCHESTRATOR_COMPLETE, events.CANCEL_COMPLETED, events.SESSION_END})
# A full queue drops none of these: they show who asked, who allowed, and what went wrong.
_GUARDING = re.compile(
    r"(approval|budget|cancel|execution|hook|logging|module|orchestrator|policy|prompt|redaction"
    r"|session):|tool:(pre|post|error)$"
)
_FLUSH_SECONDS = 2.0
_CLOSE_SECONDS = 5.0
_LONGEST_ID = 100
_ENVELOPE = ("session_id", "parent_id", "timestamp")


class EventLog:
    """Writes the events of one session."""

    def __init__(self, coordinator: Any, config: LoggingConfig) -> None:
        self._coordinator = coordinator
        self._config = config
        scrubber = Scrubber()
        self._loop = asyncio.get_running_loop()
        self._announcement: Future[None] | None = None
        self._sequence = 0
        self._is_dropping = False
        self.path = log_path(coordinator, config.path)
        self.writer = Writer(self.path, scrubber, config, self._hear)
        self.watch = Watch(
            coordinator,
            self,
            (scrubber,),
            name=NAME,
            priority=_EARLY,
            is_wanted=lambda event: not any(fnmatchcase(event, each) for each in config.exclude),
        )

    async def stop(self) -> None:
        """Stop listening, write what is queued and close the file."""
        await self._tell_missing()
        self.watch.stop()
        if not await asyncio.to_thread(self.writer.close, _CLOSE_SECONDS):
            line = f"The log {self.path} is not complete: the disk does not answer."
            show(self._coordinator, line, "error", source=NAME)
        if self._announcement is not None:
            await asyncio.wrap_future(self._announcement)

    async def __call__(self, event: str, data: Any) -> None:
        """Log an event; waits only at the end of a turn, and not for long."""
        await self.watch.keep_up(event)
        # Not for its own events, one of which `_tell_missing` emits itself.
        if event not in EVENTS:
            await self._tell_missing()
        self._put(event, data)
        if event in _TURN_ENDS:
            await self._flush()

    def _put(self, event: str, data: Any) -> None:
        if isinstance(data, dict):
            fields = dict(cast("dict[str, Any]", data))
        else:
            fields = {"data": data}
        session_id, parent_id, timestamp = (fields.pop(name, None) for name in _ENVELOPE)
        config = self._config
        # Cut before it is queued, so that the queue's limit in characters bounds its memory.
        clip = Clip(config.max_record_bytes + MARGIN_CHARS, config.max_value_chars + MARGIN_CHARS)
        room = clip.left
        entry = Entry(
            self._sequence,
            event,
            str(session_id or self._coordinator.session_id)[:_LONGEST_ID],
            None if parent_id is None else str(parent_id)[:_LONGEST_ID],
            str(timestamp)[:_LONGEST_ID],
            clip.cut(fields),
        )
        self._sequence += 1
        is_kept = _GUARDING.match(event) is not None
        if not self.writer.put(entry, room - clip.left, always=is_kept) and not self._is_dropping:
            self._is_dropping = True
            line = "The log cannot be written as fast as things happen; events are being dropped."
            show(self._coordinator, line, source=NAME)

    async def _tell_missing(self) -> None:
        """Report how many events are missing from the log, once it can be written again."""
        if missing := self.writer.take_missing():
            self._is_dropping = False
            total = missing.total()
            show(self._coordinator, f"{total} events are missing from the log.", source=NAME)
            facts = {"total": total, "events": dict(missing)}
            await self._coordinator.hooks.emit(DROPPED, facts)

    async def _flush(self) -> None:
        written = asyncio.wrap_future(self.writer.flush())
        done, _ = await asyncio.wait({written}, timeout=_FLUSH_SECONDS)
        if not done:
            logger.warning("log not flushed in time path=%s", self.path)

    def _hear(self, error: str) -> None:
        """Announce in the event loop what the writer's thread reports, once: the disk refuses."""
        if not self._loop.is_closed():
            told = asyncio.run_coroutine_threadsafe(self._announce(error), self._loop)
            self._announcement = told

    async def _announce(self, error: str) -> None:
        line = f"The log {self.path} cannot be written ({error}); the session continues without it."
        show(self._coordinator, line, "error", source=NAME)
        await self._coordinator.hooks.emit(FAILED, {"path": str(self.path), "error": error})
