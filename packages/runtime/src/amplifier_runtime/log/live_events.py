"""Live events: pieces of answers and tool output, with secrets scrubbed across piece borders."""

from __future__ import annotations

import sys
from typing import Any, cast

from amplifier_core import events
from amplifier_journal.log import is_live
from amplifier_journal.plain import plain
from amplifier_kit.calls.block_stream import ABORTED, STREAM_EVENTS
from amplifier_kit.secrets.scrubber import STREAM_ENDS, EventStreams, Scrubber
from amplifier_kit.secrets.watch import Watch
from amplifier_runtime.log.run_log import TOOL_OUTPUT, RunLog
from amplifier_runtime.turns.journal import latest_model_call, scope

__all__ = ["LiveEvents"]

NAME = "log"
# Before all other handlers, so that events a guard denies are seen too.
_FIRST = -sys.maxsize
_TEXTS = ("text", "delta")
# After these events, modules may have declared further secrets.
_NEW_SECRETS = (events.EXECUTION_START, events.MODULE_SWAPPED)


class LiveEvents:
    """Observes the events of one run, and forwards the live ones to its log."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        scrubber = Scrubber()
        self._streams = EventStreams(scrubber)
        coordinator = log.run.session.coordinator
        self._watch = Watch(
            coordinator, self._hear, [scrubber], name=NAME, priority=_FIRST, is_wanted=_is_wanted
        )

    async def listen(self) -> None:
        """Subscribe to every event known so far."""
        await self._watch.refresh((*STREAM_EVENTS, TOOL_OUTPUT))

    def stop(self) -> None:
        """Unsubscribe."""
        self._watch.stop()

    async def _hear(self, event: str, data: Any) -> None:
        await self._watch.keep_up(event)
        if self._log.run.is_ended:
            return
        is_shown = _is_shown(event)
        if is_shown and _is_replayed():
            return
        facts = self._news(data)
        # At the end of a block, a tool or the turn, text that was held back is released.
        for name, rest in self._streams.end(event, facts):
            self._log.show(name, rest)
        if not is_shown:
            return
        fed = self._streams.feed(event, facts)
        # A piece that may end in half of a secret is held back until the next one.
        if fed is facts or any(fed.get(each) for each in _TEXTS):
            self._log.show(event, fed)

    def _news(self, data: Any) -> dict[str, Any]:
        """Return the data of an event without the fields that every row of the log has."""
        given: Any = plain(data)
        if not isinstance(given, dict):
            return {"data": given}
        coordinator = self._log.run.session.coordinator
        own = {"session_id": coordinator.session_id, "parent_id": coordinator.parent_id}
        return {
            key: value
            for key, value in cast("dict[str, Any]", given).items()
            if key != "timestamp" and not (key in own and own[key] == value)
        }


def _is_wanted(event: str) -> bool:
    return _is_shown(event) or event in STREAM_ENDS or event in _NEW_SECRETS


def _is_shown(event: str) -> bool:
    return is_live(event) or event in (TOOL_OUTPUT, ABORTED)


def _is_replayed() -> bool:
    """Whether the event belongs to an answer from the journal, which readers get as a record."""
    call = latest_model_call()
    return not scope() and call is not None and call.kept is not None
