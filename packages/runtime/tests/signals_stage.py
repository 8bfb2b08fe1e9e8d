"""Turns that ask before they act, and a model that tells what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from runtime_stage import PaymentModel, Reached, Stage, Trace, TracedTool, plan_with

from amplifier_core import events
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCall,
    ToolCallBlock,
)
from amplifier_core.models import HookResult
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.store import Turn
from amplifier_runtime.signals.signals import Approval, Signals
from amplifier_runtime.signals.watcher import SignalWatch
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun
from amplifier_runtime.worker.worker import Worker, WorkerSettings

T = TypeVar("T")


class AskUser(TurnPart):
    """Asks about the tools of these names with a plain hook result, in the same words for all."""

    def __init__(
        self,
        *tools: str,
        timeout: float = 1_000_000.0,
        default: Literal["allow", "deny"] = "deny",
    ) -> None:
        self._tools = tools
        self._timeout = timeout
        self._default: Literal["allow", "deny"] = default

    async def attach(self, run: TurnRun) -> None:
        async def ask(event: str, data: dict[str, Any]) -> HookResult:
            if data["tool_name"] not in self._tools:
                return HookResult()
            return HookResult(
                action="ask_user",
                approval_prompt="Go on?",
                approval_timeout=self._timeout,
                approval_default=self._default,
            )

        run.session.coordinator.hooks.register(events.TOOL_PRE, ask)


def guarded_plan(loop: str, folder: Path) -> dict[str, Any]:
    """Return a plan whose guard asks about everything that is not pure."""
    config = {"timeout_seconds": 1_000_000, "grants_file": str(folder / "grants.json")}
    return {**plan_with(loop), "hooks": [{"module": "hooks-approval", "config": config}]}


class TalkModel(PaymentModel):
    """Looks up the price twice, one after the other, then repeats what people said to it."""

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        results = sum(message.role == "tool" for message in request.messages)
        said = [str(each.content) for each in request.messages if each.role == "user"]
        self._trace.note("model", self._session_id, results, "|".join(said))
        await self._reached(f"model {results}")
        if results >= 2:
            return ChatResponse(content=[TextBlock(text="|".join(said))], finish_reason="stop")
        call = ToolCall(id=f"call_{results}", name="price", arguments={"item": "book"})
        block = ToolCallBlock(id=call.id, name=call.name, input=call.arguments)
        return ChatResponse(content=[block], tool_calls=[call], finish_reason="tool_use")


class Talk(Stage):
    """Mounts the model that repeats, and the price."""

    def __init__(self, trace: Trace, reached: Reached) -> None:
        super().__init__(trace, reached)

    async def prepare(self, run: TurnRun) -> None:
        coordinator, session_id = run.session.coordinator, run.claim.session_id
        model = TalkModel(self._trace, session_id, self._reached)
        await coordinator.mount("providers", model, name=model.name)
        tool = TracedTool("price", "unsafe", self._trace, session_id, self._reached)
        await coordinator.mount("tools", tool, name="price")


class Scene:
    """A tenant with one session and its first turn, and the trace of what was really done."""

    def __init__(self, database: Database, url: str, folder: Path) -> None:
        self.database = database
        self.url = url
        self.trace = Trace(folder / "trace")
        self.client = Client(database, "t")
        self.signals = Signals(database, "t")
        self.watch = SignalWatch(poll_seconds=0.05)

    def worker(self, *parts: Any, **settings: Any) -> Worker:
        parts = (self.watch, *parts)
        return Worker(WorkerSettings(self.url, parts=parts, poll_seconds=0.05, **settings))

    async def submit(self, plan: dict[str, Any], key: str = "k") -> Turn:
        await self.client.create_session("s", plan)
        return await self.client.submit("s", "buy", idempotency_key=key)

    async def until_state(self, turn: Turn, state: str, runs: int = 0) -> Turn:
        async def look() -> Turn | None:
            now = await self.client.turn(turn.turn_id)
            return now if now.state == state and now.runs >= runs else None

        return await self._until(look)

    async def asked(self, count: int = 1) -> list[Approval]:
        async def look() -> list[Approval] | None:
            found = await self.signals.approvals("s")
            return found if len(found) >= count else None

        return await self._until(look)

    async def _until(self, look: Callable[[], Awaitable[T | None]]) -> T:
        async with asyncio.timeout(120):
            while (found := await look()) is None:  # noqa: ASYNC110 - a row sets no events
                await asyncio.sleep(0.02)
        return found

    async def result(self, turn: Turn) -> Turn:
        async with asyncio.timeout(120):
            return await self.client.result(turn.turn_id)


class Hold:
    """Keeps whoever comes to a place there until it is opened."""

    def __init__(self, at: str) -> None:
        self._at = at
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self, place: str) -> None:
        if place == self._at:
            self.reached.set()
            await self.opened.wait()
