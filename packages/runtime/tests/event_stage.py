"""A model that streams, tools and readers, to see what the log makes of a turn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runtime_stage import PaymentModel, Reached, Stage, Trace

from amplifier_core import events
from amplifier_core.message_models import ChatRequest, ChatResponse
from amplifier_kit.calls.block_stream import BLOCK_DELTA, BlockStream
from amplifier_runtime.log.log_rows import SUPERSEDED
from amplifier_runtime.log.reader import GONE, LogEntry, LogReader
from amplifier_runtime.turns.turn_run import TurnRun

WORDS = ("Let ", "me ", "see ", "about ", "that. ")


class StreamingModel(PaymentModel):
    """Shows words before it answers, and tells the hooks of each request."""

    def __init__(self, hooks: Any, trace: Trace, session_id: str, reached: Reached) -> None:
        super().__init__(trace, session_id, reached)
        self._hooks = hooks

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        await self._hooks.emit(events.LLM_REQUEST, {"provider": self.name})
        stream = BlockStream(self._hooks)
        await stream.start(0, "text")
        for number, word in enumerate(WORDS):
            await stream.delta(0, word)
            await self._reached(f"word {number}")
        await stream.end(0)
        response = await super().complete(request, **kwargs)
        await self._hooks.emit(events.LLM_RESPONSE, {"provider": self.name, "usage": {"n": 1}})
        return response


class StreamingStage(Stage):
    """Mounts it in place of the model that is silent."""

    async def prepare(self, run: TurnRun) -> None:
        await super().prepare(run)
        coordinator, session_id = run.session.coordinator, run.claim.session_id
        model = StreamingModel(coordinator.hooks, self._trace, session_id, self._reached)
        await coordinator.unmount("providers", "payment")
        await coordinator.mount("providers", model, name="payment")


class View:
    """What somebody has on the screen who follows a log and does as it says."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.names: list[str] = []
        self.shown: dict[int, str] = {}
        self.seen_live: set[int] = set()
        self.voided: set[int] = set()
        self.cursor = ""

    def take(self, entry: LogEntry) -> None:
        self.cursor = entry.cursor
        if entry.is_live:
            assert entry.number not in self.seen_live, "a live event came twice"
            self.seen_live.add(entry.number)
            if entry.name == BLOCK_DELTA:
                self.shown[entry.number] = entry.data["data"]["text"]
            return
        assert entry.name != GONE, entry
        self.seqs.append(entry.seq)
        self.names.append(entry.name)
        if entry.name == SUPERSEDED:
            for first, last in entry.data["numbers"]:
                gone = {number for number in self.shown if first <= number <= last}
                self.voided |= gone
                for number in gone:
                    del self.shown[number]

    @property
    def text(self) -> str:
        return "".join(self.shown[number] for number in sorted(self.shown))


async def follow(
    reader: LogReader,
    session_id: str,
    view: View,
    *,
    turns: int = 1,
    reconnect_after: Iterable[int] = (),
) -> View:
    """Read until so many turns have ended; let go and come back with the cursor now and then."""
    breaks = set(reconnect_after)
    count = 0
    while view.names.count("turn.ended") < turns:
        entries = reader.tail("t", session_id, after=view.cursor)
        async for entry in entries:
            view.take(entry)
            count += 1
            if view.names.count("turn.ended") >= turns or count in breaks:
                break
        await entries.aclose()
    return view


async def all_entries(reader: LogReader, session_id: str) -> list[LogEntry]:
    """Read a log from the beginning to its end."""
    entries: list[LogEntry] = []
    while page := await reader.read("t", session_id, after=entries[-1].cursor if entries else ""):
        entries += page
    return entries
