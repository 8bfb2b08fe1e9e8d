"""Somebody reads along while workers are killed at every place of a turn."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from event_stage import WORDS, View, all_entries, follow

from amplifier_core import events
from amplifier_runtime.database.database import Database, all_of
from amplifier_runtime.log.log_rows import SUPERSEDED
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.turns.steps import OUTCOME_UNKNOWN
from amplifier_runtime.turns.turn_run import RESUMED

PROGRAM = Path(__file__).parent / "event_crash_program.py"
MARKERS = {RESUMED, SUPERSEDED}
AT_ONCE = 4

pytestmark = pytest.mark.slow


Facts = dict[str, Any]


class Seen(NamedTuple):
    """A turn that was read along: where its worker was killed, and what was told of it."""

    killed: str | None
    exits: list[int]
    names: Counter[str]


async def read_along(url: str, said: asyncio.Queue[Facts | None]) -> list[Seen]:
    """Follow each session of a database that is told of, until there are no more."""
    database, found = Database(url), list[Seen]()
    reader = LogReader(database)
    while (begun := await said.get()) is not None:
        view, session = View(), begun["session"]
        # Lets go and comes back every few entries, each time with its cursor only.
        breaks = range(3, 1000, 4)
        async with asyncio.timeout(120):
            await follow(reader, session, view, reconnect_after=breaks)
            ended = await said.get()
        check(view, await all_entries(reader, session))
        names = Counter(name for name in view.names if name not in MARKERS)
        assert ended is not None, begun
        found.append(Seen(begun["killed"], ended["exits"], names))
    assert await database.run(lambda c: all_of(c, "SELECT turn_id FROM live_events")) == []
    database.close()
    return found


async def tell(program: asyncio.subprocess.Process, said: dict[str, asyncio.Queue[Any]]) -> None:
    """Pass on what a program says of each database, and that it has ended."""
    assert program.stdout is not None
    async for line in program.stdout:
        facts = json.loads(line)
        said[facts["url"]].put_nowait(facts)
    for each in said.values():
        each.put_nowait(None)


@pytest.mark.attack("J4")
async def test_j4_a_reader_loses_nothing_and_sees_nothing_twice_wherever_a_worker_is_killed(
    new_url: Callable[[], str], tmp_path: Path
) -> None:
    urls = [new_url() for _ in range(AT_ONCE)]
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        str(tmp_path),
        "loop-streaming",
        *urls,
        stdout=asyncio.subprocess.PIPE,
    )
    said: dict[str, asyncio.Queue[Facts | None]] = {url: asyncio.Queue() for url in urls}
    async with asyncio.timeout(250), asyncio.TaskGroup() as group:
        group.create_task(tell(program, said))
        reading = [group.create_task(read_along(url, said[url])) for url in urls]
    assert await program.wait() == 0
    whole, *seen = [each for task in reading for each in task.result()]
    assert (whole.killed, whole.exits) == (None, [0])
    assert len(seen) > 25
    for each in seen:
        assert each.exits == [-9, 0], each
        if OUTCOME_UNKNOWN in each.names:
            assert not whole.names - each.names, each
        else:
            assert each.names == whole.names, each


def check(view: View, stored: list[Any]) -> None:
    assert view.seqs == list(range(1, len(view.seqs) + 1))
    assert view.names == [entry.name for entry in stored]
    # What a lost run showed is void: no word is left more often than it was answered.
    asked = view.names.count(events.LLM_RESPONSE)
    assert all(view.text.count(word) <= asked for word in WORDS), view.text
