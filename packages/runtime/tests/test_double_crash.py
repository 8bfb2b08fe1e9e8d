"""Whoever takes over is killed as well, anywhere; the third still ends the turn as it should."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from event_stage import all_entries

from amplifier_kit.history_repair import repair_history
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.log.reader import LogReader

PROGRAM = Path(__file__).parent / "double_crash_program.py"
SEED, COUNT, AT_ONCE = 11, 8, 4
KILLED, ENDED = -9, 0


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming"])
async def test_killed_at_two_places_the_turn_completes_with_the_same_result(
    new_url: Callable[[], str], tmp_path: Path, loop: str
) -> None:
    urls = [new_url() for _ in range(AT_ONCE)]
    given = (str(tmp_path), loop, str(SEED), str(COUNT), *urls)
    program = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), *given, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(120):
        said, _ = await program.communicate()
    assert program.returncode == 0
    pairs = [json.loads(line) for line in said.splitlines()]
    assert len(pairs) == COUNT
    # A second run that finds most of the turn in the journal may end before its place.
    assert sum(pair["exits"] == [KILLED, KILLED, ENDED] for pair in pairs) >= COUNT / 2
    for pair in pairs:
        assert pair["exits"][0] == KILLED, pair
        assert pair["exits"][1] in (KILLED, ENDED), pair
        assert pair["exits"][2] == ENDED, pair
        assert pair["repeated"] == 0, pair
        assert pair["pay"] == 1, pair
        await check(pair["url"], pair["session"])


async def check(url: str, session_id: str) -> None:
    database = Database(url)
    client = Client(database, "t")
    [turn] = await client.turns(session_id)
    assert (turn.state, turn.answer) == ("done", "price 42, paid"), session_id
    assert repair_history(await client.messages(session_id))[1] == [], session_id
    entries = await all_entries(LogReader(database), session_id)
    database.close()
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1)), session_id
    assert [entry.name for entry in entries].count("turn.ended") == 1, session_id
