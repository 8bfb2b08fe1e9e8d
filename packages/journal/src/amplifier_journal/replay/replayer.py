"""Runs a recorded session again, offline, and compares it with its recording."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_core import events
from amplifier_core.session import AmplifierSession
from amplifier_journal.log import LogReader
from amplifier_journal.memory import MemoryLog
from amplifier_journal.readings.state import state_of
from amplifier_journal.recorder import Recorder
from amplifier_journal.replay.changed_plan import StrictQueue
from amplifier_journal.replay.comparison import Difference, compare
from amplifier_journal.replay.playback_queue import PlaybackQueue
from amplifier_journal.replay.recording import Opening, Recording
from amplifier_journal.replay.stubs import (
    ApprovalStub,
    MockedProvider,
    MockedTool,
    ProviderStub,
    SilentDisplay,
    ToolStub,
)
from amplifier_kit.calls.prices import price_table
from amplifier_kit.turn_events import OUTPUT_SCHEMA

logger = logging.getLogger(__name__)

NAME = "replay"
_INNERMOST = 2**63 - 1
# Files that these modules would share with the user's own sessions.
_OWN_FILES = {"hooks-approval": "grants_file"}


class NoScrubber:
    """Changes nothing: the recording was scrubbed when it was written."""

    def scrub(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return it unchanged."""
        return record

    def learn(self) -> None:
        """Do nothing."""


class ReplayOptions(NamedTuple):
    """What a replay takes from outside of the recording; `replay` says what each is for."""

    resolver: Any = None
    mention_resolver: Any = None
    plan: dict[str, Any] | None = None
    capabilities: Mapping[str, Any] | None = None


class ReplaySession:
    """One opening of a recording as a session to replay; its records are in `log.written`."""

    def __init__(
        self, recording: Recording, opening: Opening, folder: Path, options: ReplayOptions
    ) -> None:
        opened = opening.opened
        session_id = recording.session_id
        self._has_own_tools = options.plan is not None
        if options.plan is None:
            self.queue = PlaybackQueue(opening.records)
        else:
            first = opening.records[0].seq
            earlier = [each for each in recording.records if each.seq < first]
            self.queue = StrictQueue(opening.records, earlier)
        self.log = MemoryLog(session_id)
        self._opening = opening
        self.session = AmplifierSession(
            self._without_stubs(options.plan or opened["plan"], folder),
            session_id=session_id,
            parent_id=opened.get("parent_id"),
            approval_system=ApprovalStub(self.queue) if opened.get("approvals") else None,
            display_system=SilentDisplay() if opened.get("display") else None,
            is_resumed=bool(opened.get("resumed")),
        )
        coordinator = self.session.coordinator
        coordinator.register_capability("session.folder", str(folder))
        coordinator.register_capability("session.working_dir", opened.get("working_dir"))
        coordinator.register_capability("mention_resolver", options.mention_resolver)
        for name, value in (options.capabilities or {}).items():
            coordinator.register_capability(name, value)
        coordinator.session_state.update(opening.before.values)
        if options.resolver is not None:
            _ = coordinator.mount("module-source-resolver", options.resolver)
        scrubber: Any = NoScrubber()
        self.recorder = Recorder(coordinator, self.log, scrubber, turn=_turn_before(opening))

    async def open(self) -> None:
        """Mount everything and interpose the stubs."""
        coordinator = self.session.coordinator
        recorder = self.recorder
        inventory = self._opening.mounted
        self.mount(inventory, planned_only=True)
        await recorder.listen()
        await self.session.initialize()
        self.mount(inventory)
        await recorder.attach(resumed=bool(self._opening.opened.get("resumed")))
        # Inside of the recorder, so that played outcomes are recorded as well.
        coordinator.interpose("providers", self._provider, name=NAME, priority=_INNERMOST)
        coordinator.interpose("tools", self._tool, name=NAME, priority=_INNERMOST)
        if not self._has_own_tools:
            ask = self.queue.replay_recorded_question
            coordinator.hooks.register(events.TOOL_PRE, ask, priority=_INNERMOST, name=NAME)
        await self.set_messages(self._opening.before.messages)
        self.queue.follow(recorder, self._opening.records)

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Set the messages of the context, without recording that."""
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
        """Mount mocks of the recorded providers and tools, in the recorded order.

        With `planned_only`, only of those that the plan lists; the context or a hook may mount the
        others itself. With a plan that is not the recorded one, the tools are those of the plan.
        """
        points = self.session.coordinator.mount_points
        planned = {
            entry.get("module")
            for section in ("providers", "tools")
            for entry in self._opening.opened["plan"].get(section) or ()
        }
        mocks: dict[str, Any] = {"providers": MockedProvider, "tools": MockedTool}
        if self._has_own_tools:
            del mocks["tools"]
        for point, mock in mocks.items():
            for facts in inventory.get(point, ()):
                is_real = point == "providers" and facts["name"] in self.queue.composite
                is_wanted = not planned_only or facts["module"] in planned
                if is_wanted and not is_real and facts["name"] not in points[point]:
                    if facts.get("prices"):
                        prices = price_table(self.session.coordinator)
                        prices.take_declared(facts["own_name"], facts["prices"])
                    _ = self.session.coordinator.mount(point, mock(facts), name=facts["name"])
            if not planned_only and point in inventory:
                self._arrange(point, [facts["name"] for facts in inventory[point]])

    def _arrange(self, point: str, names: list[str]) -> None:
        """Leave only these mounted, in this order, in which requests list them."""
        mounted: dict[str, Any] = self.session.coordinator.mount_points[point]
        ordered = [(name, mounted[name]) for name in names if name in mounted]
        for name in list(mounted):
            _ = self.session.coordinator.unmount(point, name)
        for name, module in ordered:
            _ = self.session.coordinator.mount(point, module, name=name)

    def _provider(self, name: str, provider: Any) -> Any:
        is_real = name in self.queue.composite
        if is_real:
            return provider
        return ProviderStub(name, provider, self.queue)

    def _tool(self, name: str, tool: Any) -> Any:
        return ToolStub(name, tool, self.queue)

    def _without_stubs(self, plan: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Return the plan without mocked modules, and without files of the user's own."""
        later = [each.data for each in self._opening.records if each.kind == "mounted"]
        real = {
            facts["module"]
            for inventory in (self._opening.mounted, *later)
            for facts in inventory.get("providers", ())
            if facts["name"] in self.queue.composite
        }
        session = dict(plan["session"])
        for key in ("orchestrator", "context"):
            if isinstance(session[key], dict):
                session[key] = _without_files(session[key], folder)
        return {
            **plan,
            "session": session,
            "providers": [e for e in plan.get("providers") or () if e.get("module") in real],
            "tools": list(plan.get("tools") or ()) if self._has_own_tools else [],
            "hooks": [_without_files(each, folder) for each in plan.get("hooks") or ()],
        }


def _without_files(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return an entry of a plan with its module's files in `folder`."""
    given: dict[str, Any] = entry.get("config") or {}
    config = {key: each for key, each in given.items() if key != "path"}
    own = _OWN_FILES.get(str(entry.get("module")))
    if own is not None:
        config[own] = str(folder / own)
    return {**entry, "config": config}


def _turn_before(opening: Opening) -> int:
    prompts = [each.data["turn"] for each in opening.records if each.kind == "prompt"]
    if prompts:
        return min(prompts) - 1
    return opening.before.turns


class Replay(NamedTuple):
    """The result of a replay: no differences, or where it diverged.

    `turns` were replayed to their end. A replay with a plan that is not the recorded one is not
    complete if it stopped where it diverged.
    """

    differences: list[Difference]
    turns: int
    is_complete: bool = True

    @property
    def first(self) -> Difference | None:
        """The first difference, from which the others may follow."""
        return self.differences[0] if self.differences else None

    def __str__(self) -> str:
        if not self.differences:
            return f"{self.turns} turn(s) replayed without a difference."
        shown = "\n\n".join(map(str, self.differences))
        if not self.is_complete:
            return f"{shown}\n\nThe replay stopped here, after {self.turns} turn(s)."
        return shown


async def replay(
    reader: LogReader,
    *,
    resolver: Any = None,
    mention_resolver: Any = None,
    plan: dict[str, Any] | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> Replay:
    """Run a recorded session again and compare.

    The loop, the context and the hooks of the recorded plan run for real. Models, tools and users
    answer from the recording, so that neither keys nor a network are needed and only a temporary
    folder is changed. `resolver` finds modules that are not installed, and `mention_resolver` the
    files of bundles that they look for; `capabilities` are what the app gave to the session.

    With a `plan`, its loop, context and hooks run instead, and its tools are mounted but not
    called. Models are those of the recording, whatever the plan names. Recorded answers and results
    are used as long as the session asks for them as it did; at the first request, tool call or
    question that differs, the replay stops, because nobody knows what would have followed. Events
    are not compared.
    """
    recording = await asyncio.to_thread(lambda: Recording(reader.session_id, reader.records()))
    options = ReplayOptions(resolver, mention_resolver, plan, capabilities)
    return await replay_recording(recording, options)


async def replay_recording(recording: Recording, options: ReplayOptions | None = None) -> Replay:
    """Do what `replay` does, with records that are already in memory."""
    found: list[Difference] = []
    turns = 0
    for opening in recording.openings():
        if not any(each.kind == "prompt" for each in opening.records):
            continue
        with tempfile.TemporaryDirectory(prefix="amplifier-replay-") as folder:
            replayed = ReplaySession(recording, opening, Path(folder), options or ReplayOptions())
            played = _OpeningReplay(replayed, opening)
            found += await played.run()
        found += _differences_of(recording, played)
        turns += played.turns
        if played.divergence is not None:
            return Replay(_by_record(found or [played.divergence]), turns, is_complete=False)
    return Replay(_by_record(found), turns)


def _by_record(differences: list[Difference]) -> list[Difference]:
    return sorted(differences, key=lambda each: each.seq)


def _differences_of(recording: Recording, played: _OpeningReplay) -> list[Difference]:
    """Return how the records of a replayed opening differ from the recorded ones."""
    opening = played.opening
    queue = played.replayed.queue
    found = compare(
        [each for each in recording.records if each.seq <= played.upto],
        played.written,
        since=opening.records[0].seq,
        open_ended=played.is_cut_short,
        paired_only=played.divergence is not None,
    )
    if isinstance(queue, StrictQueue):
        # Other modules emit other events without doing anything else.
        return [each for each in found if each.kind != "event"]
    return found


class _OpeningReplay:
    """The replay of one opening, turn by turn."""

    def __init__(self, replayed: ReplaySession, opening: Opening) -> None:
        self.replayed = replayed
        self.opening = opening
        self.turns = 0
        self.prompts = [at for at, each in enumerate(opening.records) if each.kind == "prompt"]
        self._ends = {e.data["turn"]: e.seq for e in opening.records if e.kind == "turn.ended"}
        if self.prompts:
            last = opening.records[self.prompts[-1]].data["turn"]
        else:
            last = None
        self.is_cut_short = last is not None and last not in self._ends

    @property
    def divergence(self) -> Difference | None:
        """Where the replay stopped, because its plan does something else."""
        queue = self.replayed.queue
        return queue.divergence if isinstance(queue, StrictQueue) else None

    @property
    def upto(self) -> int:
        """The last recorded record that the replay can be compared with."""
        last: int = self.opening.records[-1].seq
        if self.divergence is None:
            return last
        # Not the turns after it: their messages would be paired with further ones of this turn.
        return self._ends.get(self.divergence.turn, last)

    @property
    def written(self) -> list[Any]:
        """The records of the replay, up to where it diverged."""
        queue = self.replayed.queue
        written = self.replayed.log.written
        if isinstance(queue, StrictQueue) and queue.divergence is not None:
            return written[: queue.written]
        return written

    async def run(self) -> list[Difference]:
        """Replay all turns; returns what happened in only one of the two runs."""
        found: list[Difference] = []
        records = self.opening.records
        await self.replayed.open()
        try:
            for number, at in enumerate(self.prompts):
                is_last = number == len(self.prompts) - 1
                following = len(records) if is_last else self.prompts[number + 1]
                await self._before_turn(records[self.prompts[number - 1] if number else 0 : at])
                await self._turn(records[at])
                if self.divergence is not None:
                    break
                self.turns += 1
                end = records[following - 1].seq + 1
                if not (is_last and self.is_cut_short):
                    found += self._surprises(records[at], end)
        finally:
            await self.replayed.close()
        return found

    async def _before_turn(self, before: list[Any]) -> None:
        """Repeat what the app did since the last turn: mount other tools, set other messages."""
        ended = [at for at, each in enumerate(before) if each.kind == "turn.ended"]
        between = before[ended[-1] + 1 :] if ended else before
        for record in between:
            if record.kind == "mounted":
                self.replayed.mount(record.data)
        if ended and any(each.kind in ("message", "messages") for each in between):
            upto = between[-1].seq
            records = [each for each in self.opening.records if each.seq <= upto]
            await self.replayed.set_messages(state_of(records, self.opening.before).messages)

    async def _turn(self, prompt: Any) -> None:
        replayed = self.replayed
        turn = prompt.data["turn"]
        given = prompt.data.get("content") or prompt.data["text"]
        schema = prompt.data.get("output_schema")
        replayed.session.coordinator.register_capability(OUTPUT_SCHEMA, schema)
        replayed.queue.order.take(prompt.seq)
        # The wrapper of a child's loop begins and ends its turn.
        is_child = self.opening.opened.get("parent_id") is not None
        error = answer = None
        if not is_child:
            await replayed.recorder.begin_turn(given)
        try:
            answer = await replayed.session.execute(given)
        except asyncio.CancelledError as raised:
            task = asyncio.current_task()
            # Somebody cancels the replay, not a recorded cancellation the session.
            if task is not None and task.cancelling():
                raise
            error = raised
        except Exception as raised:
            logger.debug("replayed turn failed", exc_info=True)
            error = raised
        if not is_child:
            await replayed.recorder.end_turn(answer, error)
        replayed.session.coordinator.cancellation.reset()
        if turn in self._ends:
            replayed.queue.order.take(self._ends[turn])

    def _surprises(self, prompt: Any, end: int) -> list[Difference]:
        queue = self.replayed.queue
        turn = prompt.data["turn"]
        new = queue.unexpected
        queue.unexpected = []
        left = queue.left_before(end)
        if queue.order.is_out_of_step:
            queue.order.is_out_of_step = False
            new.append("another order of calls")
        return [
            *(Difference("order", turn, prompt.seq, f"{each} is new", "") for each in new),
            *(Difference("order", turn, end - 1, f"{each} did not happen", "") for each in left),
        ]
