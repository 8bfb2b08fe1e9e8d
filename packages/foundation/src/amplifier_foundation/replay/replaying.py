"""Replaying: a recorded session run again, offline, and held against its record."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.reading.state import state_of
from amplifier_foundation.replay.comparison import Difference, compare
from amplifier_foundation.replay.stage import Stage
from amplifier_foundation.replay.tape import Act, Tape

__all__ = ["Replay", "replay", "replay_tape"]

logger = logging.getLogger(__name__)


class Replay(NamedTuple):
    """What a replay came to: no differences, or where it went another way."""

    differences: list[Difference]
    turns: int

    def __str__(self) -> str:
        if not self.differences:
            return f"{self.turns} turn(s) replayed without a difference."
        return "\n\n".join(map(str, self.differences))


async def replay(reader: Any, *, resolver: Any = None, mention_resolver: Any = None) -> Replay:
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
            stage.writer.records,
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
