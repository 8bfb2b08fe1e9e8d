"""Replaying: a recorded session run again, offline, and held against its record."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_core import events
from amplifier_core.session import AmplifierSession
from amplifier_journal.log import LogReader
from amplifier_journal.memory import MemoryLog
from amplifier_journal.readings.state import state_of
from amplifier_journal.recorder import Recorder
from amplifier_journal.replay.comparison import Difference, compare
from amplifier_journal.replay.players import (
    ApprovalPlayer,
    ProviderPlayer,
    SilentDisplay,
    StandInProvider,
    StandInTool,
    ToolPlayer,
)
from amplifier_journal.replay.score import Score
from amplifier_journal.replay.tape import Act, Tape
from amplifier_kit.calls.prices import price_table

logger = logging.getLogger(__name__)

NAME = "replay"
_INNERMOST = 2**63 - 1
# Files that these modules would share with the person's own sessions.
_OWN_FILES = {"hooks-approval": "grants_file"}


class NoScrubber:
    """Leaves everything as it is: the record was scrubbed when it was written."""

    def scrub(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return it as it is."""
        return record

    def learn(self) -> None:
        """Do nothing."""


class Stage:
    """One act of a tape, ready to be played; what happens is in `log.written`."""

    def __init__(
        self, session_id: str, act: Act, folder: Path, resolver: Any, mention_resolver: Any
    ) -> None:
        opened = act.opened
        self.score = Score(act.records)
        self.log = MemoryLog(session_id)
        self._act = act
        self.session = AmplifierSession(
            self._staged(opened["plan"], folder),
            session_id=session_id,
            parent_id=opened.get("parent_id"),
            approval_system=ApprovalPlayer(self.score) if opened.get("approvals") else None,
            display_system=SilentDisplay() if opened.get("display") else None,
            is_resumed=bool(opened.get("resumed")),
        )
        coordinator = self.session.coordinator
        coordinator.register_capability("session.folder", str(folder))
        coordinator.register_capability("session.working_dir", opened.get("working_dir"))
        coordinator.register_capability("mention_resolver", mention_resolver)
        coordinator.session_state.update(act.before.values)
        if resolver is not None:
            _ = coordinator.mount("module-source-resolver", resolver)
        scrubber: Any = NoScrubber()
        self.recorder = Recorder(coordinator, self.log, scrubber, turn=_turn_before(act))

    async def open(self) -> None:
        """Mount everything and put the players in between."""
        coordinator = self.session.coordinator
        recorder = self.recorder
        inventory = self._act.mounted
        self.mount(inventory, planned_only=True)
        await recorder.listen()
        await self.session.initialize()
        self.mount(inventory)
        await recorder.attach(resumed=bool(self._act.opened.get("resumed")))
        # Behind the recorder, so that what is played is recorded as well.
        coordinator.interpose("providers", self._provider, name=NAME, priority=_INNERMOST)
        coordinator.interpose("tools", self._tool, name=NAME, priority=_INNERMOST)
        coordinator.hooks.register(
            events.TOOL_PRE, self.score.ask_for_the_absent, priority=_INNERMOST, name=NAME
        )
        await self.set_messages(self._act.before.messages)
        self.score.follow(recorder, self._act.records)

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Give the memory these messages, unrecorded."""
        context: Any = self.session.coordinator.get("context")
        self.recorder.is_paused = True
        await context.clear()
        if messages:
            await context.set_messages(messages)
        self.recorder.is_paused = False

    async def close(self) -> None:
        """End the session."""
        await self.session.cleanup()
        self.recorder.detach()

    def mount(self, inventory: dict[str, Any], *, planned_only: bool = False) -> None:
        """Put stand-ins where the recorded providers and tools were, in their order.

        With `planned_only`, only for what the plan's own sections mount; the rest may come with
        the memory or with a hook.
        """
        points = self.session.coordinator.mount_points
        planned = {
            entry.get("module")
            for section in ("providers", "tools")
            for entry in self._act.opened["plan"].get(section) or ()
        }
        for point, stand_in in (("providers", StandInProvider), ("tools", StandInTool)):
            for facts in inventory.get(point, ()):
                is_real = point == "providers" and facts["name"] in self.score.composite
                is_wanted = not planned_only or facts["module"] in planned
                if is_wanted and not is_real and facts["name"] not in points[point]:
                    if facts.get("prices"):
                        prices = price_table(self.session.coordinator)
                        prices.take_declared(facts["own_name"], facts["prices"])
                    _ = self.session.coordinator.mount(point, stand_in(facts), name=facts["name"])
            if not planned_only and point in inventory:
                self._arrange(point, [facts["name"] for facts in inventory[point]])

    def _arrange(self, point: str, names: list[str]) -> None:
        """Leave only these mounted, in this order, which is the order the model reads."""
        mounted: dict[str, Any] = self.session.coordinator.mount_points[point]
        ordered = [(name, mounted[name]) for name in names if name in mounted]
        for name in list(mounted):
            _ = self.session.coordinator.unmount(point, name)
        for name, module in ordered:
            _ = self.session.coordinator.mount(point, module, name=name)

    def _provider(self, name: str, provider: Any) -> Any:
        is_real = name in self.score.composite
        if is_real:
            return provider
        return ProviderPlayer(name, provider, self.score)

    def _tool(self, name: str, tool: Any) -> Any:
        return ToolPlayer(name, tool, self.score)

    def _staged(self, plan: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Return the plan without what is played, and without files of the person's own."""
        later = [each.data for each in self._act.records if each.kind == "mounted"]
        real = {
            facts["module"]
            for inventory in (self._act.mounted, *later)
            for facts in inventory.get("providers", ())
            if facts["name"] in self.score.composite
        }
        session = dict(plan["session"])
        for key in ("orchestrator", "context"):
            if isinstance(session[key], dict):
                session[key] = _without_files(session[key], folder)
        return {
            **plan,
            "session": session,
            "providers": [e for e in plan.get("providers") or () if e.get("module") in real],
            "tools": [],
            "hooks": [_without_files(each, folder) for each in plan.get("hooks") or ()],
        }


def _without_files(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return an entry of a plan whose module keeps its files in `folder`."""
    given: dict[str, Any] = entry.get("config") or {}
    config = {key: each for key, each in given.items() if key != "path"}
    own = _OWN_FILES.get(str(entry.get("module")))
    if own is not None:
        config[own] = str(folder / own)
    return {**entry, "config": config}


def _turn_before(act: Act) -> int:
    prompts = [each.data["turn"] for each in act.records if each.kind == "prompt"]
    if prompts:
        return min(prompts) - 1
    return act.before.turns


class Replay(NamedTuple):
    """What a replay came to: no differences, or where it went another way."""

    differences: list[Difference]
    turns: int

    def __str__(self) -> str:
        if not self.differences:
            return f"{self.turns} turn(s) replayed without a difference."
        return "\n\n".join(map(str, self.differences))


async def replay(
    reader: LogReader, *, resolver: Any = None, mention_resolver: Any = None
) -> Replay:
    """Run a recorded session again and compare.

    The loop, the memory and the hooks of the recorded plan run for real; models, tools and people
    answer from the record, so neither keys nor a network are needed and nothing is changed but a
    temporary folder. `resolver` finds modules that are not installed, and `mention_resolver` the
    files of bundles that they look for.
    """
    tape = await asyncio.to_thread(lambda: Tape(reader.session_id, reader.records()))
    return await replay_tape(tape, resolver=resolver, mention_resolver=mention_resolver)


async def replay_tape(tape: Tape, *, resolver: Any = None, mention_resolver: Any = None) -> Replay:
    """Do what `replay` does with records that are read already."""
    found: list[Difference] = []
    turns = 0
    for act in tape.acts():
        if not any(each.kind == "prompt" for each in act.records):
            continue
        with tempfile.TemporaryDirectory(prefix="amplifier-replay-") as folder:
            stage = Stage(tape.session_id, act, Path(folder), resolver, mention_resolver)
            performance = _Performance(stage, act)
            found += await performance.run()
        upto = act.records[-1].seq
        found += compare(
            [each for each in tape.records if each.seq <= upto],
            stage.log.written,
            since=act.records[0].seq,
            open_ended=performance.is_cut_short,
        )
        turns += len(performance.prompts)
    return Replay(sorted(found, key=lambda each: each.seq), turns)


class _Performance:
    """One act being played, turn by turn."""

    def __init__(self, stage: Stage, act: Act) -> None:
        self._stage = stage
        self._act = act
        self.prompts = [at for at, each in enumerate(act.records) if each.kind == "prompt"]
        self._ends = {e.data["turn"]: e.seq for e in act.records if e.kind == "turn.ended"}
        if self.prompts:
            last = act.records[self.prompts[-1]].data["turn"]
        else:
            last = None
        self.is_cut_short = last is not None and last not in self._ends

    async def run(self) -> list[Difference]:
        """Play all turns; returns what happened in only one of the two runs."""
        found: list[Difference] = []
        records = self._act.records
        await self._stage.open()
        try:
            for number, at in enumerate(self.prompts):
                is_last = number == len(self.prompts) - 1
                following = len(records) if is_last else self.prompts[number + 1]
                await self._before_turn(records[self.prompts[number - 1] if number else 0 : at])
                await self._turn(records[at])
                end = records[following - 1].seq + 1
                if not (is_last and self.is_cut_short):
                    found += self._surprises(records[at], end)
        finally:
            await self._stage.close()
        return found

    async def _before_turn(self, before: list[Any]) -> None:
        """Do what the app did since the last turn: mount other tools, set other messages."""
        ended = [at for at, each in enumerate(before) if each.kind == "turn.ended"]
        between = before[ended[-1] + 1 :] if ended else before
        for record in between:
            if record.kind == "mounted":
                self._stage.mount(record.data)
        if ended and any(each.kind in ("message", "messages") for each in between):
            upto = between[-1].seq
            records = [each for each in self._act.records if each.seq <= upto]
            await self._stage.set_messages(state_of(records, self._act.before).messages)

    async def _turn(self, prompt: Any) -> None:
        stage = self._stage
        turn = prompt.data["turn"]
        stage.score.conductor.take(prompt.seq)
        # A child's turn begins and ends with its loop, as the recorder sees to.
        is_child = self._act.opened.get("parent_id") is not None
        error = answer = None
        if not is_child:
            await stage.recorder.begin_turn(prompt.data["text"])
        try:
            answer = await stage.session.execute(prompt.data["text"])
        except asyncio.CancelledError as raised:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            error = raised
        except Exception as raised:
            logger.debug("replayed turn failed", exc_info=True)
            error = raised
        if not is_child:
            await stage.recorder.end_turn(answer, error)
        stage.session.coordinator.cancellation.reset()
        if turn in self._ends:
            stage.score.conductor.take(self._ends[turn])

    def _surprises(self, prompt: Any, end: int) -> list[Difference]:
        score = self._stage.score
        turn = prompt.data["turn"]
        new = score.unexpected
        score.unexpected = []
        left = score.left_before(end)
        if score.conductor.is_out_of_step:
            score.conductor.is_out_of_step = False
            new.append("another order of calls")
        return [
            *(Difference("order", turn, prompt.seq, f"{each} is new", "") for each in new),
            *(Difference("order", turn, end - 1, f"{each} did not happen", "") for each in left),
        ]
