"""The persistent context: writes each message to a file before storing it in memory."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from amplifier_core.errors import describe_error
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult
from amplifier_module_contexts.context import FittingContext
from amplifier_module_contexts.context_persistent.config import PersistentConfig
from amplifier_module_contexts.context_persistent.message_log import MessageLog
from amplifier_module_contexts.history import History
from amplifier_module_contexts.spill import FileBlobs

logger = logging.getLogger(__name__)

RECOVERED = "context:recovered"
SYNC_FAILED = "context:sync_failed"
BLANKED = "context:blanked"


class PersistentContextManager(FittingContext):
    """Writes every message to the log, then stores it; returns those that fit.

    Messages that are put into `messages` directly are written with the next message or at the end
    of the turn.
    """

    name = "context-persistent"

    def __init__(
        self,
        config: PersistentConfig,
        log: MessageLog,
        *,
        hooks: HookRegistry | None = None,
        coordinator: Any = None,
    ) -> None:
        blobs = FileBlobs(log.path.with_name(f"{log.path.name}.blobs"))
        self._scrubber = log.scrubber
        clean = None if log.scrubber is None else log.scrubber.scrub_text
        super().__init__(config, hooks=hooks, coordinator=coordinator, blobs=blobs, clean=clean)
        self._log = log
        self._is_resumed = bool(log.messages)
        self._always = config.fsync == "always"
        self._use(History(log.messages))
        self._note_written()

    async def add_message(self, message: dict[str, Any]) -> None:
        """Write one message, then store it; a prompt is synced to disk when this returns.

        Raises:
            ValueError: it has no role, cannot be measured, or cannot be written as JSON.
            ContextFencedError: another process has taken the conversation over.
        """
        # Measured before it is written: the log must not have a message that is refused here.
        message = await self._reduced(message)
        self._write_missing()
        self._history.measure(message)
        if self._scrubber is not None and message["role"] == "user":
            self._scrubber.learn()
        self._log.append(message=message)
        self._history.messages.append(message)
        self._note_written()
        if self._always or message["role"] == "user":
            await self._sync()

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace all messages; ignored if the file had a conversation when it was opened."""
        # The file is authoritative: an app that resumes cannot have stored more than it.
        if self._is_resumed:
            logger.debug("set_messages ignored, the file has it all path=%s", self._log.path)
            return
        messages = list(messages)
        History(messages).measure()
        self._log.append(reset=messages)
        await super().set_messages(messages)
        self._note_written()
        await self._sync()

    async def clear(self) -> None:
        """Forget all messages; the file keeps them, followed by a reset record."""
        self._log.append(reset=[])
        self._is_resumed = False
        await super().clear()
        self._note_written()
        await self._sync()

    async def sync_at_turn_end(self, event: str, data: dict[str, Any]) -> HookResult:
        """Sync the turn to disk; announce a failure, and which secrets were blanked."""
        try:
            await self._sync()
        except OSError as error:
            logger.exception("fsync failed path=%s", self._log.path)
            reason = describe_error(error)
            line = f"The conversation is not safely on the disk: {reason}."
            await self.announcer.tell(SYNC_FAILED, {"error": reason}, line, "error")
        if self._scrubber is not None and (kinds := self._scrubber.take_blanked()):
            line = f"Blanked in the file of the conversation: {', '.join(kinds)}."
            await self.announcer.tell(BLANKED, {"kinds": kinds}, line, "info")
        return HookResult()

    async def tell_recovery(self) -> None:
        """Announce damage that was found when the file was opened."""
        recovery = self._log.recovery
        if any(recovery):
            line = (
                f"The conversation `{self._log.path}` was damaged and has been recovered with "
                f"{len(self.messages)} messages: {recovery.torn_bytes} bytes of an unfinished "
                f"record and {recovery.damaged_lines} unreadable lines are kept in `.torn`, "
                f"{recovery.fenced_records} late records of another process do not count."
            )
            facts = {"path": str(self._log.path), "messages": len(self.messages)}
            await self.announcer.tell(RECOVERED, {**facts, **recovery._asdict()}, line)

    async def close(self) -> None:
        """Sync everything to disk and release the lock."""
        try:
            await self._sync()
        finally:
            self._log.close()

    async def _sync(self) -> None:
        self._write_missing()
        await asyncio.to_thread(self._log.sync)

    def _write_missing(self) -> None:
        """Write what was appended to the list of messages directly, or a list that replaced it."""
        messages = self._history.messages
        if self._history is not self._written_of or len(messages) < self._written:
            self._log.append(reset=messages)
        else:
            for message in messages[self._written :]:
                self._log.append(message=message)
        self._note_written()

    def _note_written(self) -> None:
        self._written_of, self._written = self._history, len(self._history.messages)
