"""Rate limits that hold for all workers together."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from runtime_stage import rows, until
from sqlalchemy import event

from amplifier_core.message_models import ChatRequest, Message
from amplifier_core.models import ProviderInfo
from amplifier_runtime.database.database import Database, execute
from amplifier_runtime.limits.limits import RatedProvider
from amplifier_runtime.limits.rates import Bucket, set_rate_limit
from amplifier_runtime.turns.turn_run import TurnRun

RATE_PROGRAM = Path(__file__).parent / "rate_program.py"


@pytest.mark.slow
async def test_two_processes_together_take_no_more_than_the_rate(
    url: str, database: Database, tmp_path: Path
) -> None:
    await set_rate_limit(database, "vendor", requests_per_minute=3_000, burst_seconds=0.02)
    seconds = 3
    command = [sys.executable, str(RATE_PROGRAM), url, str(tmp_path), "vendor:requests", "3"]
    programs = [
        await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        for _ in range(2)
    ]
    await until(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
    (tmp_path / "go").touch()
    taken = [int((await program.communicate())[0]) for program in programs]
    assert sum(taken) <= 51 * seconds
    assert sum(taken) >= 30 * seconds
    assert min(taken) > 0


async def test_no_minute_can_have_more_than_the_limit(database: Database) -> None:
    for rate in (1, 10, 600, 90_000):
        await set_rate_limit(database, f"v{rate}", tokens_per_minute=rate)
    for row in await rows(database, "SELECT * FROM rate_buckets"):
        most = row["capacity"] + row["per_ms"] * 60_000
        assert most == pytest.approx(row["per_minute"])


async def test_all_that_wait_are_asked_for_with_one_statement(database: Database) -> None:
    await set_rate_limit(database, "hot", requests_per_minute=600_000)
    await database.run(lambda c: execute(c, "UPDATE rate_buckets SET level = capacity"))
    statements: list[str] = []
    event.listen(
        database.engine, "before_cursor_execute", lambda *given: statements.append(given[2])
    )
    bucket = Bucket(database, "hot:requests")
    async with asyncio.timeout(120):
        await asyncio.gather(*(bucket.take(1) for _ in range(1_000)))
    assert 1 <= sum("UPDATE" in each for each in statements) < 20


async def test_a_large_call_gathers_what_it_needs_and_keeps_its_place(database: Database) -> None:
    await set_rate_limit(database, "vendor", tokens_per_minute=60_000, burst_seconds=0.05)
    bucket, order = Bucket(database, "vendor:tokens"), list[str]()

    async def take(name: str, amount: float) -> None:
        await bucket.take(amount)
        order.append(name)

    async with asyncio.timeout(120):
        gone = asyncio.create_task(bucket.take(10_000_000))
        await asyncio.sleep(0)
        calls = [asyncio.create_task(take("large", 300)), asyncio.create_task(take("small", 1))]
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.gather(*calls)
    assert order == ["large", "small"]


async def test_what_was_taken_too_much_is_given_back(database: Database) -> None:
    await set_rate_limit(database, "vendor", tokens_per_minute=60_000)
    before = (await rows(database, "SELECT level FROM rate_buckets"))[0]["level"]
    await Bucket(database, "vendor:tokens").take_back(400)
    assert (await rows(database, "SELECT level FROM rate_buckets"))[0]["level"] == before + 400


async def test_a_limit_that_was_taken_away_holds_nobody_back(database: Database) -> None:
    await set_rate_limit(database, "vendor", requests_per_minute=60)
    await set_rate_limit(database, "vendor")
    async with asyncio.timeout(120):
        await Bucket(database, "vendor:requests").take(100)


class StreamingModel:
    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="m", display_name="M", defaults={"max_output_tokens": 500})

    async def stream(self, request: ChatRequest, **kwargs: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"content": "yes"}
        yield {"usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}}


class RunningTurn:
    def check(self) -> None:
        pass


async def test_a_streamed_call_waits_for_the_rate_and_returns_what_it_did_not_use(
    database: Database,
) -> None:
    await set_rate_limit(database, "m", requests_per_minute=6_000, tokens_per_minute=6_000_000)
    rates = {kind: Bucket(database, f"m:{kind}") for kind in ("requests", "tokens")}
    returned: list[float] = []

    async def take_back(amount: float) -> None:
        returned.append(amount)

    rates["tokens"].take_back = take_back  # pyright: ignore[reportAttributeAccessIssue] - seen here
    provider = RatedProvider(StreamingModel(), rates, cast(TurnRun, RunningTurn()))
    request = ChatRequest(messages=[Message(role="user", content="Go.")])
    async with asyncio.timeout(120):
        chunks = [chunk async for chunk in provider.stream(request)]
    assert chunks[0] == {"content": "yes"}
    granted = await rows(database, "SELECT bucket, granted FROM rate_buckets ORDER BY bucket")
    assert [each["granted"] > 0 for each in granted] == [True, True]
    assert returned == [granted[1]["granted"] - 4]
