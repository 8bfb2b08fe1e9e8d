"""Players: stand in for providers, tools and people, and say what they said in the record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.message_models import ChatResponse
from amplifier_core.models import ProviderInfo, ToolResult
from amplifier_journal.plain import build_error, digest_of, plain
from amplifier_journal.proxy import Proxy
from amplifier_journal.replay.score import NotRecordedError, Score
from amplifier_journal.replay.tape import PlayedCall
from amplifier_kit.calls.mounting import calls_in_response


class StandInProvider:
    """Says of itself what the recorded provider said; its calls are played."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.name: str = facts["own_name"]
        self._info = ProviderInfo.model_validate(facts["info"])
        if facts.get("priority") is not None:
            self.priority: int = facts["priority"]
        if facts.get("counts"):
            self.count_tokens = self.complete
        if facts.get("streams"):
            self.stream = self.complete

    def get_info(self) -> ProviderInfo:
        """Return what the provider said of itself."""
        return self._info

    async def list_models(self) -> list[Any]:
        """Return no models: a record does not have them."""
        return []

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        """Be played instead."""
        raise NotRecordedError("This provider is only played.", provider=self.name)

    def parse_tool_calls(self, response: ChatResponse) -> list[Any]:
        """Return the calls of a response."""
        return calls_in_response(response)


class StandInTool:
    """Says of itself what the recorded tool said; its runs are played."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.name: str = facts["own_name"]
        self.description: str = facts["description"]
        self.input_schema: dict[str, Any] = facts["input_schema"]
        self.effect: str = facts["effect"]
        self.deadline_seconds: float | None = facts["deadline_seconds"]
        self.output_trusted: bool = facts["output_trusted"]
        self.require_approval: bool = facts["require_approval"]
        self.network: bool | None = facts.get("network")  # not in logs of earlier versions

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Be played instead."""
        return ToolResult(success=False, error={"message": "This tool is only played."})


class _Player(Proxy):
    """Has every attribute of the module it stands before, except what it plays."""

    __slots__ = ("_name", "_score")

    def __init__(self, name: str, inner: Any, score: Score) -> None:
        super().__init__(inner)
        self._name = name
        self._score = score


class ProviderPlayer(_Player):
    """Answers with the recorded responses and failures."""

    async def complete(self, request: Any, **kwargs: Any) -> Any:
        """Return the next recorded response."""
        call = self._score.next_model_call(self._name)
        outcome = await _play(call, self._score)
        return ChatResponse.model_validate(outcome["response"])

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "count_tokens":
            return self._count
        if name == "stream":
            return self._stream
        return found

    async def _count(self, request: Any, **kwargs: Any) -> int:
        return self._score.next_count(self._name)

    async def _stream(self, request: Any, **kwargs: Any) -> AsyncIterator[Any]:
        call = self._score.next_model_call(self._name)
        for chunk in (await _play(call, self._score))["chunks"]:
            yield chunk


class ToolPlayer(_Player):
    """Answers with the recorded results and failures."""

    async def execute(self, input: dict[str, Any]) -> Any:  # noqa: A002 - contract name
        """Return the recorded result of this call."""
        call = self._score.next_tool_call(self._name)
        if call is None:
            message = f"The record has no such call of `{self._name}`."
            return ToolResult(success=False, error={"message": message})
        outcome = await _play(call, self._score)
        self._score.set_state(call)
        result = outcome.get("result")
        if isinstance(result, dict) and "success" in result:
            return ToolResult.model_validate(result)
        return cast("Any", result)

    def __getattr__(self, name: str) -> Any:
        if name == "preflight" and self._score.looks(self._name):
            return self._preflight
        return super().__getattr__(name)

    def _preflight(self, given: dict[str, Any]) -> str | None:
        return self._score.next_look(self._name, digest_of(plain(given)))


class ApprovalPlayer:
    """Answers with the recorded decisions, found by what was asked."""

    def __init__(self, score: Score) -> None:
        self._score = score

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Any
    ) -> str:
        """Return what the person decided."""
        seq, decision = self._score.next_decision(prompt)
        if seq is not None:
            await self._score.conductor.reach(seq)
            self._score.conductor.take(seq)
        if decision == "timeout":
            raise ApprovalTimeoutError("Nobody answered in time.")
        return decision


class SilentDisplay:
    """Shows nothing; what is shown is recorded on the way here."""

    def show_message(self, message: str, level: Any, source: str = "hook") -> None:
        """Show nothing."""


async def _play(call: PlayedCall, score: Score) -> dict[str, Any]:
    """Announce what was announced in a call, wait for its turn, and return or raise its outcome."""
    conductor = score.conductor
    conductor.take(call.seq)
    for event in call.events:
        await score.emit(event["name"], event["data"])
    if call.end is None:
        score.has_run_out = True
        score.stop()
        await _forever()
    error: dict[str, Any] | None = call.outcome.get("error")
    end = call.end or 0
    try:
        if error is not None and error["type"] in ("CancelledError", "GeneratorExit"):
            await _forever()
        await conductor.reach(end)
    finally:
        conductor.take(end)
    if error is not None:
        raise build_error(error)
    return call.outcome


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()
