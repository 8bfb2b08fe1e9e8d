"""The log: each event once, in order, without secrets, no more than it may hold."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from event_stage import StreamingStage, View, all_entries, follow
from runtime_stage import Trace, plan_with

from amplifier_kit.calls.block_stream import BLOCK_DELTA, BLOCK_END, BlockStream
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Connection, Database, all_of, execute
from amplifier_runtime.database.store import wake_turn
from amplifier_runtime.errors import CursorError, NotFoundError
from amplifier_runtime.log.log_rows import SUPERSEDED, LogRow, append
from amplifier_runtime.log.reader import GONE, LogEntry, LogReader
from amplifier_runtime.log.session_log import LogLimits, SessionLog, sweep_log, trim_log
from amplifier_runtime.turns.turn_run import RESUMED, TurnPart, TurnRun
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from end_to_end.secret_examples import EXAMPLES

LOOP = "loop-streaming"


@contextlib.asynccontextmanager
async def working(
    url: str,
    database: Database,
    folder: Path,
    *parts: TurnPart,
    limits: LogLimits | None = None,
) -> AsyncGenerator[Worker]:
    log = SessionLog(database, limits)
    stage = StreamingStage(Trace(folder / "trace"))
    async with Worker(WorkerSettings(url, poll_seconds=0.02, parts=[log, stage, *parts])) as worker:
        yield worker
    await log.aclose()


async def open_session(database: Database, session_id: str = "s") -> Client:
    client = Client(database, "t")
    await client.create_session(session_id, plan_with(LOOP))
    return client


async def bare_log(database: Database, state: str = "ready") -> None:
    """Make a session with a log and one turn, which nobody runs."""
    client = await open_session(database)
    turn = await client.submit("s", "x", idempotency_key="k")

    def work(connection: Connection) -> None:
        execute(connection, "INSERT INTO logs (session_id) VALUES ('s')")
        sql = "UPDATE turns SET turn_id = 'turn', state = :state WHERE turn_id = :turn"
        execute(connection, sql, turn=turn.turn_id, state=state)

    await database.run(work)


def event(number: int, *, epoch: int = 0, at: int | None = None) -> LogRow:
    return LogRow("s", "turn", epoch, "n", f'{{"n":"{number:04}"}}', key=f"turn:{number}", at=at)


def live(number: int, *, epoch: int = 0) -> LogRow:
    return LogRow("s", "turn", epoch, "shown", "{}", number=number)


async def write(database: Database, *records: LogRow) -> None:
    await database.run(lambda connection: append(connection, records))


async def first(reader: LogReader, count: int, after: str = "") -> list[LogEntry]:
    entries = reader.tail("t", "s", after=after)
    async with asyncio.timeout(120):
        found = [await anext(entries) for _ in range(count)]
    await entries.aclose()
    return found


async def test_a_reader_sees_each_event_once_and_live_ones_in_their_place(
    url: str, database: Database, tmp_path: Path
) -> None:
    client, reader, view = await open_session(database), LogReader(database), View()
    async with working(url, database, tmp_path), asyncio.timeout(120):
        following = asyncio.create_task(
            follow(reader, "s", view, turns=2, reconnect_after=range(2, 999, 3))
        )
        for key in "ab":
            turn = await client.submit("s", "buy", idempotency_key=key)
            await client.result(turn.turn_id)
        await following
    stored = await all_entries(reader, "s")
    assert view.seqs == list(range(1, len(stored) + 1))
    assert view.names == [entry.name for entry in stored]
    assert not view.voided
    assert [entry.data for entry in stored][-1]["answer"] == "price 42, paid"
    assert not any(entry.is_live for entry in stored)


class PauseOnce(TurnPart):
    """Parks the first run of a turn before its second model call."""

    async def attach(self, run: TurnRun) -> None:
        calls = 0

        async def gate() -> None:
            nonlocal calls
            calls += 1
            if run.claim.runs == 1 and calls > 3:
                await run.suspend("pause")

        run.gates.append(gate)


@pytest.mark.slow
async def test_a_turn_that_is_run_again_adds_only_that_it_was(
    url: str, database: Database, tmp_path: Path
) -> None:
    reader = LogReader(database)
    for session in ("whole", "parts"):
        await open_session(database, session)
    client = Client(database, "t")
    async with working(url, database, tmp_path), asyncio.timeout(120):
        turn = await client.submit("whole", "buy", idempotency_key="k")
        await client.result(turn.turn_id)
    async with working(url, database, tmp_path, PauseOnce()), asyncio.timeout(120):
        turn = await client.submit("parts", "buy", idempotency_key="k")
        while (await client.turn(turn.turn_id)).state != "parked":  # noqa: ASYNC110 - a row
            await asyncio.sleep(0.01)
        await database.run(lambda connection: wake_turn(connection, turn.turn_id))
        await client.result(turn.turn_id)
    whole = [entry.name for entry in await all_entries(reader, "whole")]
    parts = [entry.name for entry in await all_entries(reader, "parts")]
    assert parts.count(RESUMED) == 1
    assert sorted(name for name in parts if name != RESUMED) == sorted(whole)


class Careless(StreamingStage):
    """Its model says a secret, piece by piece, and waits until somebody has seen it."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self.seen = asyncio.Event()

    async def prepare(self, run: TurnRun) -> None:
        await super().prepare(run)
        hooks = run.session.coordinator.hooks

        async def leak(event: str, data: Any) -> None:
            stream = BlockStream(hooks)
            await stream.start(0, "text")
            for piece in ("my key is ", SECRET[:12], SECRET[12:25], SECRET[25:] + " ", "you know"):
                await stream.delta(0, piece)
            await stream.end(0)
            await self.seen.wait()
            await hooks.emit("policy:violation", {"found": f"it is {SECRET} here"})

        hooks.register("llm:response", leak, name="leak")


SECRET = EXAMPLES["anthropic-key"]


async def test_no_secret_reaches_the_log_nor_a_reader_not_even_in_pieces(
    url: str, database: Database, tmp_path: Path
) -> None:
    client, reader = await open_session(database), LogReader(database)
    seen: list[LogEntry] = []
    log = SessionLog(database)
    stage = Careless(Trace(tmp_path / "trace"))
    settings = WorkerSettings(url, parts=[log, stage])
    async with Worker(settings), asyncio.timeout(120):
        turn = await client.submit("s", "buy", idempotency_key="k")
        entries = reader.tail("t", "s")
        async for entry in entries:
            seen.append(entry)
            if entry.name == BLOCK_END:
                stage.seen.set()
            if entry.name == "turn.ended":
                break
        await entries.aclose()
        await client.result(turn.turn_id)
    await log.aclose()
    shown = "".join(each.data["data"]["text"] for each in seen if each.name == BLOCK_DELTA)
    text = str([entry.data for entry in seen])
    assert "my key is [REDACTED:" in shown
    assert "it is [REDACTED:" in text
    assert SECRET[:20] not in text
    assert SECRET[-12:] not in text


async def test_a_record_is_never_cut(url: str, database: Database, tmp_path: Path) -> None:
    client, reader = await open_session(database), LogReader(database)
    async with working(url, database, tmp_path), asyncio.timeout(120):
        turn = await client.submit("s", "word " * 100_000, idempotency_key="k")
        await client.result(turn.turn_id)
    entries = await all_entries(reader, "s")
    [prompt] = [each for each in entries if each.kind == "prompt"]
    assert prompt.data["text"] == "word " * 100_000
    [submitted] = [each for each in entries if each.name == "prompt:submit"]
    assert submitted.data["data"]["prompt"]["chars"] == 500_000


async def test_a_batch_whose_commit_was_not_confirmed_is_written_once(database: Database) -> None:
    await bare_log(database)
    batch = [event(1), live(1), event(2), live(2)]
    await write(database, *batch)
    await write(database, *batch, event(3))
    entries = await LogReader(database).read("t", "s")
    assert [entry.cursor for entry in entries] == ["1", "1.1", "2", "2.2", "3"]


async def test_a_run_that_has_lost_its_session_writes_nothing(database: Database) -> None:
    await bare_log(database)
    await database.run(lambda c: execute(c, "UPDATE sessions SET epoch = 5"))
    await write(database, event(1, epoch=4), live(1, epoch=4))
    assert await LogReader(database).read("t", "s") == []


@pytest.mark.slow
async def test_pages_keep_events_and_live_ones_in_order(database: Database) -> None:
    await bare_log(database)
    expected: list[tuple[int, int]] = []
    for number in range(1, 701):
        shown = [live(2 * number), live(2 * number + 1)] if number % 3 else []
        await write(database, event(number), *shown)
        expected += [(number, 0), *((number, each.number) for each in shown)]
    entries = await all_entries(LogReader(database), "s")
    assert [(entry.seq, entry.number) for entry in entries] == expected


async def test_the_oldest_events_go_and_a_reader_who_missed_them_is_told(
    database: Database,
) -> None:
    await bare_log(database, "done")
    reader = LogReader(database)
    await write(database, *(event(number) for number in range(1, 101)))
    assert await trim_log(database, "s", LogLimits(session_rows=50)) == 55
    entries = await reader.read("t", "s", after="10")
    assert (entries[0].name, entries[0].data) == (GONE, {"first": 11, "last": 55})
    assert [entry.seq for entry in entries[1:]] == list(range(56, 101))
    assert entries[0].cursor == "55"
    assert [entry.seq for entry in await reader.read("t", "s", after="98")] == [99, 100]
    assert await trim_log(database, "s", LogLimits(session_bytes=100)) == 38
    assert (await reader.read("t", "s"))[0].data == {"first": 1, "last": 93}


async def test_what_is_too_old_goes_even_if_nothing_is_left(database: Database) -> None:
    await bare_log(database, "done")
    await write(database, *(event(number, at=1) for number in range(1, 2501)), live(1))
    assert await sweep_log(database, LogLimits(days=1)) == 2500
    [gone] = await LogReader(database).read("t", "s")
    assert (gone.name, gone.cursor, gone.data) == (GONE, "2500", {"first": 1, "last": 2500})
    await write(database, event(9000))
    [gone, last] = await all_entries(LogReader(database), "s")
    assert last.seq == 2501
    assert await sweep_log(database, LogLimits(days=1)) == 0


async def test_what_was_cut_from_an_open_turn_is_not_written_again(database: Database) -> None:
    await bare_log(database, "running")
    batch = [event(number) for number in range(1, 11)]
    await write(database, *batch)
    await trim_log(database, "s", LogLimits(session_rows=5))
    await write(database, *batch, event(11))
    entries = await LogReader(database).read("t", "s")
    assert entries[0].data == {"first": 1, "last": 6}
    assert [entry.seq for entry in entries[1:]] == [7, 8, 9, 10, 11]
    await database.run(lambda c: execute(c, "UPDATE turns SET state = 'done'"))
    await trim_log(database, "s", LogLimits())
    rows = await database.run(lambda c: all_of(c, "SELECT seq FROM events"))
    assert len(rows) == 5


@pytest.mark.parametrize("cursor", ["x", "1.2.3", "-1", "1.", "9" * 30, "4"])
async def test_a_cursor_that_is_none_of_this_log_is_refused(
    database: Database, cursor: str
) -> None:
    await bare_log(database)
    await write(database, *(event(number) for number in range(1, 4)))
    with pytest.raises(CursorError):
        await LogReader(database).read("t", "s", after=cursor)
    with pytest.raises(CursorError):
        await first(LogReader(database), 1, after=cursor)


async def test_another_tenants_log_is_not_found(database: Database) -> None:
    await bare_log(database)
    await write(database, event(1))
    reader = LogReader(database)
    with pytest.raises(NotFoundError):
        await reader.read("other", "s")
    with pytest.raises(NotFoundError):
        await anext(reader.tail("other", "s"))


@pytest.mark.attack("J4")
async def test_j4_an_event_that_nobody_is_told_of_is_found_by_looking(database: Database) -> None:
    await bare_log(database)
    reader = LogReader(database)
    reading = asyncio.create_task(first(reader, 3))
    for number in range(1, 4):
        await asyncio.sleep(0.05)
        await write(database, event(number))
    assert [entry.seq for entry in await reading] == [1, 2, 3]


@pytest.mark.attack("J4")
async def test_j4_a_reader_whose_connection_is_cut_goes_on(
    url: str, database: Database, tmp_path: Path
) -> None:
    if database.is_sqlite:
        pytest.skip("nobody is connected to a file")
    client, view = await open_session(database), View()

    def cut(connection: Connection) -> int:
        sql = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE query LIKE 'LISTEN%' AND datname = current_database()"
        )
        return len(all_of(connection, sql))

    async with working(url, database, tmp_path), asyncio.timeout(120):
        following = asyncio.create_task(follow(LogReader(database), "s", view, turns=3))
        for key in "abc":
            while not await database.run(cut):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.01)
            turn = await client.submit("s", "buy", idempotency_key=key)
            await client.result(turn.turn_id)
        await following
    assert view.seqs == list(range(1, len(await all_entries(LogReader(database), "s")) + 1))


class Flood(StreamingStage):
    """Its model shows more than anybody can write in that time."""

    async def prepare(self, run: TurnRun) -> None:
        await super().prepare(run)
        hooks = run.session.coordinator.hooks

        async def flood(event: str, data: Any) -> None:
            stream = BlockStream(hooks)
            await stream.start(0, "text")
            for _ in range(6_000):
                await stream.delta(0, "word ")
            await stream.end(0)

        hooks.register("execution:start", flood, name="flood")


@pytest.mark.slow
async def test_what_is_shown_faster_than_it_can_be_written_is_void_and_not_lost_in_silence(
    url: str, database: Database, tmp_path: Path
) -> None:
    client, view = await open_session(database), View()
    log = SessionLog(database)
    settings = WorkerSettings(url, parts=[log, Flood(Trace(tmp_path / "trace"))])
    async with Worker(settings), asyncio.timeout(120):
        await client.submit("s", "buy", idempotency_key="k")
        await follow(LogReader(database), "s", view)
    await log.aclose()
    assert SUPERSEDED in view.names
    assert view.text.count("word ") < 6_000
