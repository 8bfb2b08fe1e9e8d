"""Replays against another plan: recorded outcomes count only for what the recorded run did too."""

from __future__ import annotations

from typing import Any

from amplifier_journal.readings.requests import Requests
from amplifier_journal.replay.comparison import Difference, Normalizer, request_differences, unified
from amplifier_journal.replay.playback_queue import PlaybackQueue
from amplifier_journal.replay.recording import RecordedCall
from amplifier_journal.wrappers import call_of
from amplifier_kit.questions import Reply

__all__ = ["StrictQueue"]


class StrictQueue(PlaybackQueue):
    """Hands out recorded outcomes until the replay does anything that the recorded run did not.

    Nobody knows what the model would have answered to another request, so the session stops there:
    the call never returns, as if the recording ended. `divergence` is where, and `written` how many
    records the replay had written by then.
    """

    def __init__(self, records: list[Any], earlier: list[Any]) -> None:
        """`earlier` are the records before this opening; requests may refer to their parts."""
        super().__init__(records)
        self.divergence: Difference | None = None
        self.written = 0
        self._recorded = Requests()
        for record in [*earlier, *records]:
            self._recorded.take(record)
        self._replayed = Requests()
        self._taken = 0
        # One for each run, because ids are numbered in the order in which a run has them.
        self._normals = Normalizer(), Normalizer()

    def next_model_call(self, provider: str) -> RecordedCall:
        """Return the next recorded call of a provider if its request is the same."""
        found = self._first("model", provider)
        return self._checked(found, self._request_difference(provider, found), "model", provider)

    def next_tool_call(self, tool: str) -> RecordedCall:
        """Return the recorded call with the same id if its input is the same."""
        asked = self._asked_call()
        found = self._first("tool", tool, asked.get("tool_call_id"))
        return self._checked(found, self._tool_difference(tool, asked, found), "tool", tool)

    def next_reply(self, prompt: str) -> tuple[int | None, Reply]:
        """Return the reply to this question; a new one is denied, and the replay stops."""
        found = next((each for each in self._decisions if each.data["prompt"] == prompt), None)
        if found is None:
            self._diverge(self._new("order", f"an approval is new: {prompt}"))
            return None, Reply("Deny")
        return self._take_reply(found)

    def _first(self, kind: str, name: str, tool_call_id: str | None = None) -> RecordedCall | None:
        for call in self._calls:
            if (call.kind, call.name, call.tool_call_id) == (kind, name, tool_call_id):
                return call
        return None

    def _checked(
        self, found: RecordedCall | None, difference: Difference | None, kind: str, name: str
    ) -> RecordedCall:
        """Return a call that is the same, or one without an outcome, at which the session stops."""
        if difference is not None:
            self._diverge(difference)
        if found is None or self.divergence is not None:
            return RecordedCall("", kind, name, None, {}, 0, None, {}, [], {})
        self._calls.remove(found)
        return found

    def _tool_difference(
        self, tool: str, asked: dict[str, Any], found: RecordedCall | None
    ) -> Difference | None:
        """Return how the tool call that is being made differs from the recorded one."""
        old, new = self._normals
        given = new.data(asked.get("input"))
        if found is None:
            about = f"a call of the tool `{tool}` is new"
            return self._new("tool input", about, unified("", given))
        was = old.data(found.given)
        if was == given:
            return None
        about = f"the input of `{tool}` differs"
        return Difference("tool input", self.recorder.turn, found.seq, about, unified(was, given))

    def _request_difference(self, provider: str, found: RecordedCall | None) -> Difference | None:
        """Return how the request that is being sent differs from the recorded one."""
        for record in self.recorder.writer.written[self._taken :]:
            self._replayed.take(record)
            self._taken += 1
        now = self._replayed.get(call_of(self.recorder))
        was = None if found is None else self._recorded.get(found.call)
        # The next recorded one may be of a later turn: this turn had no further request.
        if was is None or now is None or was.turn != self.recorder.turn:
            return self._new("request", f"a request to `{provider}` is new")
        return next(iter(request_differences(was, now, self._normals, set())), None)

    def _diverge(self, difference: Difference) -> None:
        if self.divergence is None:
            self.divergence = difference
            self.written = len(self.recorder.writer.written)

    def _new(self, kind: str, about: str, diff: str = "") -> Difference:
        """Return a difference at the first recorded step that was not taken."""
        turn: int = self.recorder.turn
        return Difference(kind, turn, self.order.next_step or 0, about, diff)
