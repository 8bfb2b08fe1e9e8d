"""Somebody reads along while workers are killed at every place of a turn."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from event_stage import WORDS, View, all_entries, follow

from amplifier_core import events
from amplifier_runtime.database import Database, all_of
from amplifier_runtime.effects import OUTCOME_UNKNOWN
from amplifier_runtime.event_reading import LogReader
from amplifier_runtime.event_rows import SUPERSEDED
from amplifier_runtime.turns import RESUMED

PROGRAM = Path(__file__).parent / "event_crash_program.py"
MARKERS = {RESUMED, SUPERSEDED}

pytestmark = pytest.mark.slow


async def facts_of(program: asyncio.subprocess.Process) -> dict[str, Any] | None:
    assert program.stdout is not None
    async with asyncio.timeout(60):
        line = await program.stdout.readline()
    return json.loads(line) if line else None


@pytest.mark.attack("J4")
async def test_j4_a_reader_loses_nothing_and_sees_nothing_twice_wherever_a_worker_is_killed(
    url: str, database: Database, tmp_path: Path
) -> None:
    reader = LogReader(database)
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        url,
        str(tmp_path),
        "loop-streaming",
        stdout=asyncio.subprocess.PIPE,
    )
    whole: Counter[str] = Counter()
    places = 0
    while (begun := await facts_of(program)) is not None:
        view, session = View(), begun["session"]
        # Lets go and comes back every few entries, each time with its cursor only.
        breaks = range(3, 1000, 4)
        async with asyncio.timeout(60):
            await follow(reader, session, view, reconnect_after=breaks)
        check(view, await all_entries(reader, session))
        names = Counter(name for name in view.names if name not in MARKERS)
        if begun["killed"] is None:
            whole = names
            continue
        places += 1
        ended = await facts_of(program)
        assert ended is not None
        assert ended["exits"] == [-9, 0], begun
        if OUTCOME_UNKNOWN in names:
            assert not whole - names, begun
        else:
            assert names == whole, begun
    assert await program.wait() == 0
    assert places > 25
    rows = await database.run(lambda c: all_of(c, "SELECT turn_id FROM live_events"))
    assert rows == []


def check(view: View, stored: list[Any]) -> None:
    assert view.seqs == list(range(1, len(view.seqs) + 1))
    assert view.names == [entry.name for entry in stored]
    # What a lost run showed is void: no word is left more often than it was answered.
    asked = view.names.count(events.LLM_RESPONSE)
    assert all(view.text.count(word) <= asked for word in WORDS), view.text
