"""The queue of recorded outcomes, handed out call by call and in the recorded order."""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

from amplifier_core import llm_errors
from amplifier_core.models import HookResult
from amplifier_journal.replay.recording import RecordedCall, calls_in, composite_providers
from amplifier_journal.wrappers import call_of
from amplifier_kit.questions import Reply
from amplifier_kit.turn_events import MODE_CHANGED, STEERING_INJECTED

# Longer than a module needs between two steps: after that, the awaited step will not come.
_PATIENCE_SECONDS = 3.0


class RecordedOrder:
    """Tracks the recorded steps that a replay has to take, by the numbers of their records.

    A result is held back until everything recorded before it has happened. So parallel calls end in
    the recorded order, and a cancellation comes exactly where it came.
    """

    def __init__(self, patience: float = _PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._left: list[int] = []
        self._due: dict[int, Callable[[], None]] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self.is_out_of_step = False

    def expect(self, seq: int, due: Callable[[], None] | None = None) -> None:
        """Expect a step at record `seq`; `due` is called when it comes next, and takes it."""
        bisect.insort(self._left, seq)
        if due is not None:
            self._due[seq] = due

    @property
    def next_step(self) -> int | None:
        """The first recorded step that was not taken yet."""
        return self._left[0] if self._left else None

    def take(self, seq: int) -> None:
        """Mark the step of record `seq` as taken, and release the steps after it."""
        at = bisect.bisect_left(self._left, seq)
        if at < len(self._left) and self._left[at] == seq:
            del self._left[at]
        while self._left and self._left[0] in self._due:
            self._due.pop(self._left.pop(0))()
        self._wake()

    async def reach(self, seq: int) -> None:
        """Wait until every step recorded before `seq` was taken."""
        if not self._left or self._left[0] >= seq:
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((seq, reached))
        try:
            async with asyncio.timeout(self._patience):
                await reached
        except TimeoutError:
            # The steps recorded before it will not come: the replay has diverged.
            self.is_out_of_step = True
            self._left = [each for each in self._left if each >= seq]

    def give_up_on(self, upto: int) -> None:
        """Stop expecting steps that were recorded before `upto`."""
        self._left = [each for each in self._left if each >= upto]
        self._due = {seq: due for seq, due in self._due.items() if seq >= upto}
        self._wake()

    def _wake(self) -> None:
        first = self._left[0] if self._left else None
        for seq, reached in self._waiting:
            if not reached.done() and (first is None or first >= seq):
                reached.set_result(None)
        self._waiting = [(seq, each) for seq, each in self._waiting if not each.done()]


class NotRecordedError(llm_errors.LLMError):
    """The replay asks for something that is not in the recording."""


class PlaybackQueue:
    """Hands the recorded outcomes of one opening to the stubs.

    `unexpected` lists what the replay asked for and the recording does not have.
    """

    def __init__(self, records: list[Any]) -> None:
        self.composite = composite_providers(records)
        self.order = RecordedOrder()
        self.unexpected: list[str] = []
        self.has_run_out = False
        self.recorder: Any = None
        self._calls = calls_in(records)
        self._counts = [each.data for each in records if each.kind == "model.count"]
        self._looks = [each.data for each in records if each.kind == "tool.preflight"]
        self._looking = {each["tool"] for each in self._looks}
        self._answers: dict[tuple[str, str, str], list[Any]] = {}
        for record in records:
            if record.kind == "tool.answer":
                told = record.data
                key = (told["tool"], told["input"], told["question"])
                self._answers.setdefault(key, []).append(told["answer"])
        self._decisions = [each for each in records if each.kind == "approval"]

    def follow(self, recorder: Any, records: list[Any]) -> None:
        """Follow the session of `recorder`; cancels and steers it where the recorded one was."""
        self.recorder = recorder
        for call in self._calls:
            self.order.expect(call.seq)
            if call.end is not None:
                self.order.expect(call.end)
        for decision in self._decisions:
            self.order.expect(decision.seq)
        for record in records:
            if record.kind in ("prompt", "turn.ended"):
                self.order.expect(record.seq)
            elif record.kind == "cancel":
                self.order.expect(record.seq, self._cancelling(record.data["immediate"]))
            elif record.kind == "event" and record.data["name"] == STEERING_INJECTED:
                self.order.expect(record.seq, self._steering(record.data["data"]["text"]))
            elif record.kind == "event" and record.data["name"] == MODE_CHANGED:
                self.order.expect(record.seq, self._setting_mode(record.data["data"]["mode"]))

    def stop(self) -> None:
        """Stop the session where the recorded process died."""
        self.recorder.coordinator.cancellation.request_immediate()

    def set_state(self, call: RecordedCall) -> None:
        """Change `session_state` as the recorded tool did: hooks that run for real read it."""
        state: dict[str, Any] = self.recorder.coordinator.session_state
        for key, value in call.state.items():
            state[key] = _filled(state.get(key), value)

    async def emit(self, name: str, data: dict[str, Any]) -> None:
        """Emit an event that the recorded module emitted."""
        await self.recorder.coordinator.hooks.emit(name, data)

    def next_model_call(self, provider: str) -> RecordedCall:
        """Return the next recorded call of a provider."""
        for call in self._calls:
            if call.kind == "model" and call.name == provider:
                self._calls.remove(call)
                return call
        self.unexpected.append(f"a model call of `{provider}`")
        raise NotRecordedError(f"The record has no further call of `{provider}`.")

    def next_tool_call(self, tool: str) -> RecordedCall | None:
        """Return the recorded call with the same id, else the next one of the tool."""
        tool_call_id = self._asked_call().get("tool_call_id")
        candidates = [each for each in self._calls if each.kind == "tool" and each.name == tool]
        same = [each for each in candidates if each.tool_call_id == tool_call_id]
        found = next(iter(same or candidates), None)
        if found is None:
            self.unexpected.append(f"a call of the tool `{tool}`")
        else:
            self._calls.remove(found)
        return found

    def next_count(self, provider: str) -> int:
        """Return the next recorded token count of a provider."""
        for count in self._counts:
            if count["provider"] == provider:
                self._counts.remove(count)
                return count["tokens"]
        self.unexpected.append(f"a count of tokens by `{provider}`")
        raise NotRecordedError(f"The record has no further count of `{provider}`.")

    def looks(self, tool: str) -> bool:
        """Whether the recording has preflight checks of a tool."""
        return tool in self._looking

    def next_look(self, tool: str, given: str) -> str | None:
        """Return the problem that a preflight found for the next call with this input, or None."""
        for look in self._looks:
            if (look["tool"], look["input"]) == (tool, given):
                self._looks.remove(look)
                return look["problem"]
        return None

    def answer(self, tool: str, given: str, question: str) -> Any:
        """Return what a tool told guards about a call with this input; None for the usual."""
        found = self._answers.get((tool, given, question), [None])
        # The last one stays: a guard may ask more often than the recorded one.
        return found.pop(0) if len(found) > 1 else found[0]

    def next_reply(self, prompt: str) -> tuple[int | None, Reply]:
        """Return the reply to this question, else to the next one, else a denial."""
        same = [each for each in self._decisions if each.data["prompt"] == prompt]
        found = next(iter(same or self._decisions), None)
        if found is None:
            self.unexpected.append(f"an approval: {prompt}")
            return None, Reply("Deny")
        return self._take_reply(found)

    def _take_reply(self, decision: Any) -> tuple[int, Reply]:
        self._decisions.remove(decision)
        told = decision.data
        return decision.seq, Reply(told["decision"], told.get("reason", ""), told.get("edited"))

    async def replay_recorded_question(self, event: str, data: dict[str, Any]) -> HookResult:
        """Ask a recorded question about a call, whose hook is not mounted in the replay.

        The hook belongs to a module that is mocked; the hooks that are mounted have asked before.
        """
        call_id = data.get("tool_call_id")
        for decision in self._decisions:
            asked = decision.data
            if call_id is not None and asked.get("tool_call_id") == call_id:
                return HookResult(
                    action="ask_user",
                    approval_prompt=asked["prompt"],
                    approval_options=asked["options"],
                    approval_default=asked["default"],
                )
        return HookResult()

    def left_before(self, seq: int) -> list[str]:
        """Remove and return what was recorded before `seq` and not asked for."""
        calls = [each for each in self._calls if each.seq < seq]
        asked = [each for each in self._decisions if each.seq < seq]
        self._calls = [each for each in self._calls if each.seq >= seq]
        self._decisions = [each for each in self._decisions if each.seq >= seq]
        self.order.give_up_on(seq)
        lines = [f"a {each.kind} call of `{each.name}` (record {each.seq})" for each in calls]
        return [*lines, *(f"an approval (record {each.seq})" for each in asked)]

    def _asked_call(self) -> dict[str, Any]:
        """Return what the replay recorded of the tool call that is being answered.

        It has the model's id of the call, which tools themselves do not get.
        """
        call = call_of(self.recorder)
        for record in reversed(self.recorder.writer.written):
            if record.kind == "tool.call" and record.data["call"] == call:
                return record.data
        return {}

    def _steering(self, text: str) -> Callable[[], None]:
        def steer() -> None:
            say: Any = self.recorder.coordinator.get_capability("session.steer")
            if say is not None:
                say(text)

        return steer

    def _setting_mode(self, mode: str) -> Callable[[], None]:
        def set_mode() -> None:
            grants: Any = self.recorder.coordinator.get_capability("approval.grants")
            if hasattr(grants, "use_mode"):
                grants.use_mode(mode)

        return set_mode

    def _cancelling(self, immediate: bool) -> Callable[[], None]:
        def cancel() -> None:
            token = self.recorder.coordinator.cancellation
            if immediate:
                token.request_immediate()
            else:
                token.request_graceful()

        return cancel


def _filled(container: Any, value: Any) -> Any:
    """Return `value` filled into existing dicts and lists, which modules have references to."""
    if isinstance(container, dict) and isinstance(value, dict):
        mine = cast("dict[str, Any]", container)
        theirs = cast("dict[str, Any]", value)
        filled = {key: _filled(mine.get(key), each) for key, each in theirs.items()}
        mine.clear()
        mine.update(filled)
        return mine
    if isinstance(container, list) and isinstance(value, list):
        items = cast("list[Any]", container)
        items[:] = deepcopy(cast("list[Any]", value))
        return items
    return deepcopy(value)
