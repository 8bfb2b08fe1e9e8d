"""Durable sessions: turns in a database, run by workers that may be killed at any instant."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Generic, Self, TypeAlias, cast, overload

from pydantic import TypeAdapter
from typing_extensions import TypeVar

from amplifier.content import Prompt, content_of
from amplifier.errors import check_option
from amplifier.events import (
    Done,
    Event,
    Question,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
)
from amplifier.totals import Totals, typed
from amplifier_journal.backends import TurnBackend, TurnEntry
from amplifier_kit.calls import block_stream

__all__ = ["Durable", "Turn"]

DepsT = TypeVar("DepsT", default=None)
OutputT = TypeVar("OutputT", default=str)
TurnT = TypeVar("TurnT")
PlanWith: TypeAlias = Callable[[DepsT | None], dict[str, Any]]
"""Returns the plan of a session with these dependencies."""
_READER = "reader"


class Turn(Generic[OutputT]):
    """A turn that was submitted; any process that has its database can wait for it."""

    def __init__(
        self,
        backend: TurnBackend,
        session_id: str,
        turn_id: str,
        output: TypeAdapter[OutputT] | None,
    ) -> None:
        self.session_id = session_id
        self.turn_id = turn_id
        self._backend = backend
        self._output = output

    async def result(self) -> Done[OutputT]:
        """Wait for the end of the turn; bound it with `asyncio.timeout`.

        Of a turn that was cancelled the `stop_reason` says so.

        Raises:
            AgentError: the answer does not have the type of the output.
            Exception: the turn failed; the error is the backend's.
        """
        await self._backend.answer_of(self.turn_id)
        async with aclosing(self.stream()) as events_of_turn:
            async for event in events_of_turn:
                if isinstance(event, Done):
                    return event
        raise AssertionError("a stream ends with Done")

    async def stream(self) -> AsyncGenerator[Event[OutputT] | Restarted]:
        """Yield what happens in the turn, from its beginning; the last event is `Done`.

        Leaving the loop changes nothing: the turn belongs to its worker. `cancel` stops it.
        """
        totals = Totals()
        calls: dict[str, dict[str, Any]] = {}
        async with aclosing(self._backend.entries(self.session_id, self.turn_id)) as entries:
            async for entry in entries:
                totals.hear(entry.name, _data_of(entry))
                event = self._event_of(entry, calls)
                if event is not None:
                    yield event
        yield await self._done(totals)

    async def cancel(self, *, immediate: bool = False) -> None:
        """Ask the turn to stop, after the running step or immediately."""
        await self._backend.cancel(self.turn_id, immediate=immediate)

    async def _done(self, totals: Totals) -> Done[OutputT]:
        answer = await self._backend.answer_of(self.turn_id)
        if answer is None:
            # Cancelled before it had any: there is nothing that could have a type.
            empty = cast("OutputT", "")
            return Done(empty, totals.usage, totals.cost, "cancelled", text="")
        output = cast("OutputT", typed(self._output, answer, totals))
        return Done(output, totals.usage, totals.cost, totals.stop_reason, text=answer)

    def _event_of(
        self, entry: TurnEntry, calls: dict[str, dict[str, Any]]
    ) -> Event[OutputT] | Restarted | None:
        data = _data_of(entry)
        match entry.name:
            case "tool.call":
                calls[data["call"]] = data
                return ToolStarted(data["tool"], data["input"], str(data["tool_call_id"]))
            case "tool.result":
                return _ended(data, calls.get(data["call"], {}))
            case "approval.asked" if "approval_id" in data:
                return self._question(data)
            case "log.superseded":
                return Restarted()
            case block_stream.BLOCK_DELTA:
                is_thought = data.get("block_type") == "thinking"
                return (ThinkingDelta if is_thought else TextDelta)(str(data["text"]))
            case _:
                return None

    def _question(self, data: dict[str, Any]) -> Question:
        approval_id: str = data["approval_id"]

        async def answer(option: str) -> None:
            check_option(option, data["options"])
            await self._backend.decide(approval_id, option, by=_READER)

        return Question(data["prompt"], tuple(data["options"]), answer)


def _data_of(entry: TurnEntry) -> dict[str, Any]:
    """Return the data of an entry; that of an event is inside of its record."""
    inner: Any = entry.data.get("data")
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else entry.data


def _ended(data: dict[str, Any], call: dict[str, Any]) -> ToolEnded:
    name, call_id = str(call.get("tool")), str(call.get("tool_call_id"))
    result: dict[str, Any] = data.get("result") or {}
    error: dict[str, Any] | None = data.get("error") or result.get("error")
    if error is None:
        return ToolEnded(name, result.get("output"), None, call_id)
    return ToolEnded(name, None, str(error.get("message") or error), call_id)


class Durable(Generic[DepsT, OutputT]):
    """An agent whose conversations are in a database: `async with agent.durable(url) as durable`.

    Workers run the turns, in this process (`worker`) or any other (`amplifier worker`). They import
    the functions of the agent by name, so its module has to be importable there.
    """

    def __init__(
        self,
        plan_with: PlanWith[DepsT],
        backend: TurnBackend,
        output: TypeAdapter[OutputT] | None,
    ) -> None:
        self._plan_with = plan_with
        self._backend = backend
        self._output = output

    async def __aenter__(self) -> Self:
        await self._backend.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._backend.close()

    @overload
    async def submit(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        key: str | None = None,
        deps: DepsT | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Turn[OutputT]: ...

    @overload
    async def submit(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        output: type[TurnT],
        key: str | None = None,
        deps: DepsT | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Turn[TurnT]: ...

    async def submit(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        output: type[Any] | None = None,
        key: str | None = None,
        deps: DepsT | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Turn[Any]:
        """Append a turn to a session, which is created if there is none.

        The same `key` returns the same turn, so that a request which is sent twice is answered
        once. `deps` are stored with a new session, as JSON: no secrets. `metadata` is stored with
        the turn.
        """
        adapter = self._output if output is None else TypeAdapter[Any](output)
        schema = None if output is None or adapter is None else adapter.json_schema()
        await self._backend.create_session(session_id, self._plan_with(deps))
        turn_id = await self._backend.submit(
            session_id,
            content_of(prompt),
            key=key or uuid.uuid4().hex,
            output_schema=schema,
            metadata=None if metadata is None else dict(metadata),
        )
        return Turn(self._backend, session_id, turn_id, adapter)

    def turn(self, session_id: str, turn_id: str) -> Turn[OutputT]:
        """Return a turn that was submitted before, by this process or another."""
        return Turn(self._backend, session_id, turn_id, self._output)

    async def update(self, session_id: str, *, deps: DepsT | None = None) -> None:
        """Give an existing session the instructions and tools that this agent has now.

        They hold from its next turn on. A session with a turn that is not finished is refused.
        """
        await self._backend.update_session(session_id, self._plan_with(deps))

    async def session_ids(self, *, limit: int = 100, offset: int = 0) -> list[str]:
        """Return the ids of the sessions, the latest first."""
        return await self._backend.session_ids(limit=limit, offset=offset)

    async def delete(self, session_id: str) -> None:
        """Delete a session with its turns and its log; refused while a turn is not finished."""
        await self._backend.delete_session(session_id)

    def worker(self, *, concurrency: int = 16) -> AbstractAsyncContextManager[None]:
        """Run turns of the database in this process, for as long as the block lasts."""
        return self._backend.worker(concurrency=concurrency)
