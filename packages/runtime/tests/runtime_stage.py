"""A provider and tools for durable turns that leave a trace outside of every database."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCall,
    ToolCallBlock,
)
from amplifier_core.models import ProviderInfo, ToolResult
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, all_of
from amplifier_runtime.database.store import Turn
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun

Reached = Callable[[str], Awaitable[None]]


class Trace:
    """A file that is only ever appended to, one line at a time, by any process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, *words: Any) -> None:
        line = " ".join(map(str, words)) + "\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line.encode())
        os.close(handle)

    def lines(self, *beginning: Any) -> list[str]:
        start = " ".join(map(str, beginning))
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        return [line for line in text.splitlines() if line.startswith(start)]


async def _nothing(name: str) -> None:
    """Go on."""


class PaymentModel:
    """Asks for a price and a payment at once, checks what became unknown, then reports.

    It has no state of its own: what it answers follows from the request alone.
    """

    name = "payment"

    def __init__(self, trace: Trace, session_id: str, reached: Reached = _nothing) -> None:
        self._trace = trace
        self._session_id = session_id
        self._reached = reached

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="payment", display_name="Payment")

    async def list_models(self) -> list[Any]:
        return []

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        results = _results_of_turn(request)
        calls = self._next_calls(results)
        self._trace.note("model", self._session_id, len(results))
        await self._reached(f"model {len(results)}")
        if not calls:
            text = f"price {results[0]}, paid"
            return ChatResponse(content=[TextBlock(text=text)], finish_reason="stop")
        blocks = [ToolCallBlock(id=each.id, name=each.name, input=each.arguments) for each in calls]
        return ChatResponse(content=[*blocks], tool_calls=calls, finish_reason="tool_use")

    def _next_calls(self, results: list[str]) -> list[ToolCall]:
        number = len(results)
        if number == 0:
            return [_call("price", 1, item="book"), _call("pay", 2, item="book")]
        if "unknown" in results[-1]:
            return [_call("check", number + 1, item="book")]
        if results[-1] == "not paid":
            return [_call("pay", number + 1, item="book")]
        return []


def _call(name: str, number: int, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, arguments=arguments)


def _results_of_turn(request: ChatRequest) -> list[str]:
    results: list[str] = []
    for message in request.messages:
        if message.role == "user":
            results = []
        elif message.role == "tool":
            results.append(_text(message.content))
    return results


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return json.dumps(
        [getattr(each, "output", None) or getattr(each, "text", "") for each in content]
    )


class TracedTool:
    """A tool that notes each of its effects."""

    description = "A tool."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    def __init__(
        self, name: str, effect: str, trace: Trace, session_id: str, reached: Reached = _nothing
    ) -> None:
        self.name = name
        self.effect = effect
        self._trace = trace
        self._session_id = session_id
        self._reached = reached

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        await self._reached(f"begin {self.name}")
        if self.name == "check":
            paid = f"effect pay {self._session_id}" in self._trace.lines("effect pay")
            return ToolResult(output="is paid" if paid else "not paid")
        self._trace.note("effect", self.name, self._session_id)
        await self._reached(f"end {self.name}")
        return ToolResult(output="42" if self.name == "price" else "receipt")


class Stage(TurnPart):
    """Mounts the model and the tools into every session."""

    def __init__(self, trace: Trace, reached: Reached = _nothing) -> None:
        self._trace = trace
        self._reached = reached

    async def prepare(self, run: TurnRun) -> None:
        coordinator, session_id = run.session.coordinator, run.claim.session_id
        model = PaymentModel(self._trace, session_id, self._reached)
        await coordinator.mount("providers", model, name=model.name)
        for name, effect in (("price", "pure"), ("pay", "unsafe"), ("check", "pure")):
            tool = TracedTool(name, effect, self._trace, session_id, self._reached)
            await coordinator.mount("tools", tool, name=name)


def plan_with(loop: str) -> dict[str, Any]:
    return {"session": {"orchestrator": loop, "context": "context-simple"}}


async def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - other processes set no events
            await asyncio.sleep(0.02)


async def end_of(client: Client, turn: Turn, trace: Trace) -> Turn:
    """Wait for a turn that ends in this process, and for the last place of its run.

    That is reached a moment after everybody can see the answer.
    """
    result = await client.result(turn.turn_id)
    if turn.state != "done":
        await until(lambda: any(line.endswith("after finish") for line in trace.lines()))
    return result


async def pause(pid: int, database: Database) -> None:
    """Stop a process where it is, if that is not in the middle of writing to SQLite.

    There it would hold up everybody until it continues. PostgreSQL gives such a one up.
    """
    assert sys.platform != "win32", "Windows does not stop a process for a while"
    while True:
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: is_stopped(pid))
        if not database.is_sqlite or _is_free(database):
            return
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(0.01)


def is_stopped(pid: int) -> bool:
    """Whether all threads of a process stand still, which they do a moment after the signal."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(each.read_text().rpartition(")")[2].split()[0] == "T" for each in threads)


def _is_free(database: Database) -> bool:
    """Whether nobody is writing to the file."""
    assert database.engine.url.database is not None
    with closing(sqlite3.connect(database.engine.url.database, timeout=0)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            assert "locked" in str(error)  # noqa: PT017 - no other failure says whether it is free
            return False
        return True


async def rows(database: Database, sql: str) -> list[dict[str, Any]]:
    """Return what a query finds."""
    return await database.run(lambda c: [dict(row) for row in all_of(c, sql)])
