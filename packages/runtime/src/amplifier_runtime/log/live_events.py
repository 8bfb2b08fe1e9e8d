"""Hearing what only shows progress: pieces of answers and of output, scrubbed across the seams."""

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
# First of all handlers: what a guard denies is heard too.
_FIRST = -sys.maxsize
_TEXTS = ("text", "delta")
# With these, other secrets may have become known.
_NEW_SECRETS = (events.EXECUTION_START, events.MODULE_SWAPPED)


class LiveEvents:
    """Hears the events of one run, and has those shown that are live."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        scrubber = Scrubber()
        self._streams = EventStreams(scrubber)
        coordinator = log.run.session.coordinator
        self._watch = Watch(
            coordinator, self._hear, [scrubber], name=NAME, priority=_FIRST, is_wanted=_is_wanted
        )

    async def listen(self) -> None:
        """Hear every event that is known by now."""
        await self._watch.refresh((*STREAM_EVENTS, TOOL_OUTPUT))

    def stop(self) -> None:
        """Hear nothing any more."""
        self._watch.stop()

    async def _hear(self, event: str, data: Any) -> None:
        await self._watch.keep_up(event)
        if self._log.run.is_ended:
            return
        is_shown = _is_shown(event)
        if is_shown and _is_replayed():
            return
        facts = self._news(data)
        # The end of a block, of a tool or of the turn gives out what was held back.
        for name, rest in self._streams.end(event, facts):
            self._log.show(name, rest)
        if not is_shown:
            return
        fed = self._streams.feed(event, facts)
        # A piece whose end may be half of a secret waits for the next one.
        if fed is facts or any(fed.get(each) for each in _TEXTS):
            self._log.show(event, fed)

    def _news(self, data: Any) -> dict[str, Any]:
        """Return what an event says beyond what every row of the log has."""
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
    """Whether what is shown is an answer from the journal, which the log has or will have."""
    call = latest_model_call()
    return not scope() and call is not None and call.kept is not None
