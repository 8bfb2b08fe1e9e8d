"""Stubs for providers, tools and users, which answer from the recording."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.message_models import ChatResponse
from amplifier_core.models import ProviderInfo, ToolResult
from amplifier_journal.plain import build_error, digest_of, plain
from amplifier_journal.proxy import Proxy
from amplifier_journal.replay.playback_queue import NotRecordedError, PlaybackQueue
from amplifier_journal.replay.recording import RecordedCall
from amplifier_kit.calls.mounting import calls_in_response
from amplifier_kit.questions import PREVIEW, Asking, Preview, Reply
from amplifier_kit.widenings import QUESTIONS, CallScope, Widening


class MockedProvider:
    """Has the declarations of the recorded provider; its calls are answered by a stub."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.name: str = facts["own_name"]
        self._info = ProviderInfo.model_validate(facts["info"])
        if facts.get("priority") is not None:
            self.priority: int = facts["priority"]
        # Only their presence matters to loops and hooks; the stub around this answers.
        if facts.get("counts"):
            self.count_tokens = self.complete
        if facts.get("streams"):
            self.stream = self.complete

    def get_info(self) -> ProviderInfo:
        """Return the recorded information."""
        return self._info

    async def list_models(self) -> list[Any]:
        """Return no models, because they are not recorded."""
        return []

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        """Raise: the stub around this mock answers."""
        raise NotRecordedError("This provider is only played.", provider=self.name)

    def parse_tool_calls(self, response: ChatResponse) -> list[Any]:
        """Return the calls of a response."""
        return calls_in_response(response)


class MockedTool:
    """Has the declarations of the recorded tool; its calls are answered by a stub."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.name: str = facts["own_name"]
        self.description: str = facts["description"]
        self.input_schema: dict[str, Any] = facts["input_schema"]
        self.effect: str = facts["effect"]
        self.deadline_seconds: float | None = facts["deadline_seconds"]
        self.output_trusted: bool = facts["output_trusted"]
        self.require_approval: bool = facts["require_approval"]
        # Not in logs of earlier versions.
        self.network: bool | None = facts.get("network")
        self.is_bounded: bool = facts.get("is_bounded", False)
        self.edits_files: bool = facts.get("edits_files", False)
        for question in facts.get("answers") or ():
            # The stub around this mock answers.
            setattr(self, question, None)

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Fail: the stub around this mock answers."""
        return ToolResult(success=False, error={"message": "This tool is only played."})


class _Stub(Proxy):
    """Forwards to the wrapped module, except for the calls that it answers."""

    __slots__ = ("_name", "_queue")

    def __init__(self, name: str, inner: Any, queue: PlaybackQueue) -> None:
        super().__init__(inner)
        self._name = name
        self._queue = queue


class ProviderStub(_Stub):
    """Answers with the recorded responses and errors."""

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        """Return the next recorded response."""
        call = self._queue.next_model_call(self._name)
        outcome = await _play(call, self._queue)
        return ChatResponse.model_validate(outcome["response"])

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "count_tokens":
            return self._count
        if name == "stream":
            return self._stream
        return found

    async def _count(self, request: Any, **kwargs: Any) -> int:
        return self._queue.next_count(self._name)

    async def _stream(self, request: Any, **kwargs: Any) -> AsyncIterator[Any]:
        call = self._queue.next_model_call(self._name)
        for chunk in (await _play(call, self._queue))["chunks"]:
            yield chunk


class ToolStub(_Stub):
    """Answers with the recorded results and errors."""

    async def execute(self, input: dict[str, Any]) -> Any:  # noqa: A002 - contract name
        """Return the recorded result of this call."""
        call = self._queue.next_tool_call(self._name)
        if call is None:
            message = f"The record has no such call of `{self._name}`."
            return ToolResult(success=False, error={"message": message})
        outcome = await _play(call, self._queue)
        self._queue.set_state(call)
        result = outcome.get("result")
        if isinstance(result, dict) and "success" in result:
            return ToolResult.model_validate(result)
        return cast("Any", result)

    def __getattr__(self, name: str) -> Any:
        if name == "preflight" and self._queue.looks(self._name):
            return self._preflight
        found = super().__getattr__(name)
        if name == "widenings":
            return self._widenings
        if name == "call_scopes":
            return self._call_scopes
        if name == PREVIEW:
            return self._preview
        if name in QUESTIONS:
            return partial(self._answer, name)
        return found

    async def _widenings(self, given: Any) -> list[Widening]:
        recorded = self._queue.answer(self._name, digest_of(plain(given)), "widenings")
        return [Widening(**each) for each in recorded or ()]

    def _call_scopes(self, given: Any) -> list[CallScope]:
        recorded = self._queue.answer(self._name, digest_of(plain(given)), "call_scopes")
        return [CallScope(**each) for each in recorded or ()]

    async def _preview(self, given: Any) -> Preview | None:
        recorded = self._queue.answer(self._name, digest_of(plain(given)), PREVIEW)
        return Preview.of(recorded) if recorded else None

    def _answer(self, question: str, given: Any) -> bool:
        return self._queue.answer(self._name, digest_of(plain(given)), question) is True

    def _preflight(self, given: dict[str, Any]) -> str | None:
        return self._queue.next_look(self._name, digest_of(plain(given)))


class ApprovalStub:
    """Answers with the recorded decisions, found by their question."""

    def __init__(self, queue: PlaybackQueue) -> None:
        self._queue = queue

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Any
    ) -> str:
        """Return what the user decided."""
        return (await self._reply(prompt)).option

    async def request_reply(self, asking: Asking) -> Reply:
        """Return what the user decided, and said or changed."""
        return await self._reply(asking.prompt)

    async def _reply(self, prompt: str) -> Reply:
        seq, reply = self._queue.next_reply(prompt)
        if seq is not None:
            await self._queue.order.reach(seq)
            self._queue.order.take(seq)
        if reply.option == "timeout":
            raise ApprovalTimeoutError("Nobody answered in time.")
        return reply


class SilentDisplay:
    """Shows nothing; the recorder's wrapper records what is shown."""

    def show_message(self, message: str, level: Any, source: str = "hook") -> None:
        """Show nothing."""


async def _play(call: RecordedCall, queue: PlaybackQueue) -> dict[str, Any]:
    """Emit the events of a call, wait for its place in the order, return or raise its outcome."""
    order = queue.order
    order.take(call.seq)
    for event in call.events:
        await queue.emit(event["name"], event["data"])
    if call.end is None:
        queue.has_run_out = True
        # The recorded process died here; the immediate stop interrupts the wait.
        queue.stop()
        await _forever()
    error: dict[str, Any] | None = call.outcome.get("error")
    end = call.end or 0
    try:
        # The recorded cancellation, which the order releases, interrupts this call again.
        if error is not None and error["type"] in ("CancelledError", "GeneratorExit"):
            await _forever()
        await order.reach(end)
    finally:
        order.take(end)
    if error is not None:
        raise build_error(error)
    return call.outcome


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()
