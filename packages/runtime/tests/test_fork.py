"""Forks of durable sessions, cut at any record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from limits_stage import plan
from sqlalchemy.exc import InterfaceError

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Connection, Database
from amplifier_runtime.errors import ForkError
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.log.stored import fork_session, read_log
from amplifier_runtime.worker.worker import Worker, WorkerSettings


async def two_turns(url: str, database: Database) -> list[str]:
    """Run two turns of session `s`, and return the kinds of its records."""
    client = Client(database, "t")
    await client.create_session("s", plan("Done."))
    settings = WorkerSettings(url, poll_seconds=0.02, parts=[SessionLog(database)])
    async with Worker(settings), asyncio.timeout(120):
        for key in ("1", "2"):
            turn = await client.submit("s", "Go.", idempotency_key=key)
            await client.result(turn.turn_id)
    return [record.kind for record in (await read_log(database, "t", "s")).written]


async def test_a_fork_has_the_turns_whose_prompt_it_has_and_one_without_is_refused(
    url: str, database: Database
) -> None:
    kinds = await two_turns(url, database)
    first = kinds.index("prompt") + 1
    second = kinds.index("prompt", first) + 1
    with pytest.raises(ForkError, match="before its first prompt"):
        await fork_session(database, "t", "s", at=first - 1)
    with pytest.raises(ForkError, match="no 99999"):
        await fork_session(database, "t", "s", at=99_999)
    for at, turns in ((first, 1), (second - 1, 1), (second, 2), (len(kinds), 2)):
        name = await fork_session(database, "t", "s", at=at)
        states = [turn.state for turn in await Client(database, "t").turns(name)]
        assert len(states) == turns, at


async def test_a_fork_whose_commit_was_not_confirmed_is_found_when_it_is_tried_again(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two_turns(url, database)
    lost: list[str] = []
    begin = database.engine.begin

    class Begin:
        def __init__(self) -> None:
            self._transaction: Any = begin()

        def __enter__(self) -> Connection:
            return self._transaction.__enter__()

        def __exit__(self, *raised: Any) -> None:
            self._transaction.__exit__(*raised)
            if not lost and raised[0] is None:
                lost.append("confirmation")
                raise InterfaceError("COMMIT", None, Exception("connection lost"))

    monkeypatch.setattr(database.engine, "begin", Begin)
    assert await fork_session(database, "t", "s", new_name="copy") == "copy"
    assert lost
    assert len(await Client(database, "t").turns("copy")) == 2
    with pytest.raises(ForkError, match="already"):
        await fork_session(database, "t", "s", new_name="copy")
