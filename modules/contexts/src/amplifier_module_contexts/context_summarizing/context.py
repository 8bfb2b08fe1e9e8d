"""The summarizing context: replaces left-out messages by a summary and a ledger."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
from typing import Any

from amplifier_core.errors import describe_error
from amplifier_core.history import answers_in
from amplifier_core.hooks import HookRegistry
from amplifier_core.llm_errors import ContextLengthError
from amplifier_kit.texts import SHORTEST, texts_in
from amplifier_module_contexts.compaction import View, behind_system
from amplifier_module_contexts.context import FittingContext
from amplifier_module_contexts.context_summarizing.config import SummarizingConfig
from amplifier_module_contexts.context_summarizing.ledger import Ledger, open_todos
from amplifier_module_contexts.context_summarizing.remember import remembered
from amplifier_module_contexts.context_summarizing.summarizer import summarize
from amplifier_module_contexts.history import History
from amplifier_module_contexts.short_forms import ShortForms
from amplifier_module_contexts.sizes import message_size
from amplifier_module_contexts.spill import MemoryBlobs

logger = logging.getLogger(__name__)

SUMMARIZED = "context:summarized"
SUMMARY_FAILED = "context:summary_failed"
LEDGER_LOST = "context:ledger_lost"

# The key in the session's state.
_STATE = "context_summary"
_HEAD = "[Summary of the messages of this conversation that were left out:]\n"
# The size of the summary's message without the summary, in characters.
_FRAME = message_size({"role": "user", "content": _HEAD})
# A summary takes at most this fraction of the budget: an eighth.
_SHARE = 8
# Room for the ledger grows in steps of characters, so that one more entry rarely changes the view.
_STEP = 400
# A small budget has smaller steps: a full one could take all of it.
_STEPS_IN_BUDGET = 16


class SummarizingContextManager(FittingContext):
    """Stores all messages in memory; returns those that fit, and a summary of the others.

    The summary is written by the configured provider, else by the provider of the request.
    """

    name = "context-summarizing"

    def __init__(
        self,
        config: SummarizingConfig,
        *,
        hooks: HookRegistry | None = None,
        coordinator: Any = None,
    ) -> None:
        blobs = MemoryBlobs(config.blob_bytes)
        super().__init__(config, hooks=hooks, coordinator=coordinator, blobs=blobs)
        self._settings = config
        self._coordinator = coordinator
        self.ledger = Ledger(config.pinned, config.goal_chars)
        self._ledger_message: dict[str, Any] = {}
        self._short = ShortForms()
        # Two requests in parallel must not pay for the same summary twice.
        self._summarizing = asyncio.Lock()
        self._summarizing_in: asyncio.Task[Any] | None = None

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace all stored messages, and rebuild the ledger from them."""
        await super().set_messages(messages)
        self.ledger.clear()
        for message in self.messages:
            self._read_prompt(message)
            for kind, text in remembered(message):
                try:
                    self.ledger.add(kind, text)
                except ValueError:
                    # The tool call failed when it was made, too.
                    logger.debug("entry not kept kind=%s", kind)
        self._read = len(self.messages)
        self._recall_summary()

    async def clear(self) -> None:
        """Forget everything but the pinned rules."""
        await super().clear()
        self.ledger.clear()

    async def history_view(self, budget: int, provider: Any) -> View:
        """Return all messages, or those that fit after the ledger and a summary."""
        self._read_prompts()
        if self._history.total <= self.calibration.chars(budget) * self.compact_threshold:
            return await super().history_view(budget, provider)
        if self._summarizing_in is asyncio.current_task():
            # Called from within the model call that writes the summary: waiting for the lock would
            # be a deadlock, since asyncio's locks are not reentrant.
            return await super().history_view(budget, provider)
        async with self._summarizing:
            self._summarizing_in = asyncio.current_task()
            try:
                return await self._compacted_view(budget, provider)
            finally:
                self._summarizing_in = None

    async def _compacted_view(self, budget: int, provider: Any) -> View:
        most_tokens = min(self._settings.summary_tokens, budget // _SHARE)
        room = self.calibration.chars(most_tokens)
        ledger = self._current_ledger()
        rest = self._rest(budget, _size(ledger) + room)
        try:
            view = await super().history_view(rest, provider)
        except ContextLengthError as error:
            # If it does not fit without the ledger either, this raises that error instead.
            self._compaction.view(budget, self.calibration)
            await self._tell_ledger_lost()
            raise ContextLengthError(
                f"The ledger does not fit beside what cannot be left out: {error}"
            ) from error
        if view.dropped and view.signature != self._seen:
            self._seen = view.signature
            await self._summarize(rest, provider, most_tokens, room - _FRAME)
        self._short.begin_view()
        summary = self._short.of(self._summary, max(SHORTEST, room - _FRAME + len(_HEAD)))
        added = [each for each in (ledger, summary) if each]
        messages = view.messages.copy()
        behind_system(messages, *added)
        lineage = (*view.lineage, self.ledger.version, len(self._covered))
        if lineage != self._checked:
            await self._check(messages)
            self._checked = lineage
        size = view.size + sum(map(message_size, added))
        return view._replace(messages=messages, size=size, lineage=lineage)

    def _rest(self, budget: int, size: int) -> int:
        """Return the tokens left beside `size` characters, which are rounded up to a step."""
        step = max(1, min(_STEP, self.calibration.chars(budget) // _STEPS_IN_BUDGET))
        steps = math.ceil(size / step)
        return budget - self.calibration.tokens(steps * step)

    async def _summarize(
        self, budget: int, provider: Any, most_tokens: int, most_chars: int
    ) -> None:
        """Update the summary with newly left-out messages; announce a failure."""
        new = self._compaction.left_out(budget, self.calibration, self._covered)
        if not new:
            return
        name = self._settings.summary_provider
        if name is None:
            asked = provider
        else:
            asked = self._coordinator.get("providers", name)
        try:
            summary = await summarize(
                [self.messages[index] for index in new],
                self._summary.get("content", "").removeprefix(_HEAD),
                asked,
                model=self._settings.summary_model,
                window=self._budget(asked),
                most_tokens=most_tokens,
                most_chars=most_chars,
            )
        except Exception as error:
            # Broad, because a request without a summary is better than none. `_covered` stays as it
            # is, so the next compaction tries these messages again.
            logger.exception("summary failed messages=%d", len(new))
            reason = describe_error(error)
            line = f"{len(new)} messages were left out without a summary: {reason}."
            await self.announcer.tell(SUMMARY_FAILED, {"messages": len(new), "error": reason}, line)
            return
        self._covered.update(new)
        self._summary = {"role": "user", "content": _HEAD + summary.text}
        self._keep_summary()
        facts = {"messages": len(new), "messages_covered": len(self._covered)}
        took = {key: value for key, value in summary._asdict().items() if key != "text"}
        tokens = self.calibration.tokens(message_size(self._summary))
        await self.announcer.tell(SUMMARIZED, {**facts, "summary_tokens": tokens, **took})

    def _keep_summary(self) -> None:
        """Keep the summary in the session's state: a resumed session need not pay for it again."""
        if self._coordinator is not None:
            covered = sorted(self._covered)
            self._coordinator.session_state[_STATE] = {
                "content": self._summary["content"],
                "covered": covered,
                "digest": self._digest(covered),
            }

    def _recall_summary(self) -> None:
        """Take the summary from the session's state, if it is one of these messages."""
        if self._coordinator is None:
            return
        # An app restores the state, so it can be anything; and the session may have been rewound.
        state: dict[str, Any] = self._coordinator.session_state
        match state.get(_STATE):
            case {"content": str(content), "covered": [*covered], "digest": str(digest)}:
                if self._digest(covered) == digest:
                    self._covered = set(covered)
                    self._summary = {"role": "user", "content": content}
            case _:
                pass

    def _digest(self, indexes: list[Any]) -> str | None:
        """Return a digest of the texts of some messages; None if one of them is not there."""
        known = range(len(self.messages))
        if not all(type(each) is int and each in known for each in indexes):
            return None
        told = [(each, *texts_in(self.messages[int(each)].get("content"))) for each in indexes]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def _current_ledger(self) -> dict[str, Any]:
        text = self.ledger.text()
        if self._ledger_message.get("content", "") != text:
            if text:
                self._ledger_message = {"role": "user", "content": text}
            else:
                self._ledger_message = {}
        return self._ledger_message

    async def _check(self, messages: list[dict[str, Any]]) -> None:
        """Raise if an entry of the ledger is not in the view word for word."""
        texts = [text for each in messages for text in texts_in(each.get("content"))]
        entries = [entry for each in self.ledger.entries().values() for entry in each]
        if not all(any(entry in text for text in texts) for entry in entries):
            await self._tell_ledger_lost()
            raise ContextLengthError("The ledger did not survive the compaction.")

    async def _tell_ledger_lost(self) -> None:
        line = "What must not be forgotten does not fit into the request; it was not sent."
        await self.announcer.tell(LEDGER_LOST, {"entries": self.ledger.entries()}, line, "error")

    def _read_prompts(self) -> None:
        """Read goal, rules and to-dos from new prompts, and the session's to-do list."""
        self._history.measure()
        if self._restarts != self._history.restarts:
            self._forget()
        for message in self.messages[self._read :]:
            self._read_prompt(message)
        self._read = len(self.messages)
        if self._coordinator is not None:
            self.ledger.set_listed(open_todos(self._coordinator.session_state))

    def _read_prompt(self, message: dict[str, Any]) -> None:
        # Never from tool results: untrusted output could set the goal or add rules.
        if message["role"] == "user" and not answers_in(message):
            self.ledger.read_prompt("\n".join(texts_in(message.get("content"))))

    def _use(self, history: History) -> None:
        super()._use(history)
        self._forget()

    def _forget(self) -> None:
        """Reset what was summarised and read, because the history was replaced."""
        self._restarts = self._history.restarts
        self._read = 0
        self._covered: set[int] = set()
        self._summary: dict[str, Any] = {}
        self._seen: tuple[int, ...] = ()
        self._checked: tuple[int, ...] = ()


def _size(message: dict[str, Any]) -> int:
    if message:
        return message_size(message)
    return 0
