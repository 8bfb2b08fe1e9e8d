"""Rate limits of vendors for the whole fleet: token buckets, one row each."""

from __future__ import annotations

import asyncio
from collections import deque

from amplifier_runtime.database.database import Connection, Database, all_of, execute, one_of

__all__ = ["Bucket", "bucket_names", "set_rate_limit"]

REQUESTS = "requests"
TOKENS = "tokens"
_SHORTEST_WAIT = 0.02
_LONGEST_WAIT = 1.0
_MINUTE_MS = 60_000.0
# The time of the update and not of the statement, which may have waited for the row's lock.
_SERVER_NOW = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
_FILLED = "(level + CASE WHEN clock.now > filled_at THEN clock.now - filled_at ELSE 0 END * per_ms)"
_LEVEL = f"(CASE WHEN {_FILLED} > capacity THEN capacity ELSE {_FILLED} END)"
_GRANT = f"(CASE WHEN {_LEVEL} <= 0 THEN 0 WHEN {_LEVEL} < :amount THEN {_LEVEL} ELSE :amount END)"
_TAKE = (
    f"UPDATE rate_buckets SET granted = {_GRANT}, level = {_LEVEL} - {_GRANT}, "
    "filled_at = CASE WHEN clock.now > filled_at THEN clock.now ELSE filled_at END "
    "FROM (SELECT {now} AS now) AS clock WHERE bucket = :bucket RETURNING granted, per_ms"
)


async def set_rate_limit(
    database: Database,
    key: str,
    *,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    burst_seconds: float = 1.0,
) -> None:
    """Limit what all workers together request from a vendor in any minute.

    `key` is the name a provider is mounted under, or `tenant/name` for the account of one tenant.
    At most `burst_seconds` of the rate may be used in one moment. None removes a limit.
    """

    def work(connection: Connection) -> None:
        for kind, rate in ((REQUESTS, requests_per_minute), (TOKENS, tokens_per_minute)):
            bucket = f"{key}:{kind}"
            if rate is None:
                sql = "DELETE FROM rate_buckets WHERE bucket = :bucket"
                execute(connection, sql, bucket=bucket)
                continue
            # The worst minute is a full bucket plus a minute's refill: together they are `rate`.
            capacity = min(max(1.0, rate * burst_seconds / 60), rate / 2)
            execute(
                connection,
                "INSERT INTO rate_buckets (bucket, per_minute, per_ms, capacity, level, filled_at) "
                "VALUES (:bucket, :rate, :per_ms, :capacity, 0, now_ms()) "
                "ON CONFLICT (bucket) DO UPDATE SET per_minute = excluded.per_minute, "
                "per_ms = excluded.per_ms, capacity = excluded.capacity",
                bucket=bucket,
                rate=rate,
                per_ms=(rate - capacity) / _MINUTE_MS,
                capacity=capacity,
            )

    await database.run(work)


def bucket_names(connection: Connection) -> set[str]:
    """Return the names of all buckets, inside a transaction."""
    return {row["bucket"] for row in all_of(connection, "SELECT bucket FROM rate_buckets")}


class Bucket:
    """One bucket, as used by one worker.

    The needs of all waiting calls are requested in one statement, so that a hot bucket costs one
    statement for many calls. They are served in order, and a large call accumulates what it needs,
    or small ones would starve it.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._take = _TAKE.format(now="now_ms()" if database.is_sqlite else _SERVER_NOW)
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._credit = 0.0
        self._pump: asyncio.Task[None] | None = None

    async def take(self, amount: float) -> None:
        """Wait until this amount is granted."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((amount, granted))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._draw())
        await granted

    async def take_back(self, amount: float) -> None:
        """Return what a call did not need; a negative amount takes what it used in addition."""

        def work(connection: Connection) -> None:
            sql = "UPDATE rate_buckets SET level = level + :amount WHERE bucket = :bucket"
            execute(connection, sql, bucket=self._name, amount=amount)

        await self._database.run(work)

    async def _draw(self) -> None:
        try:
            while self._serve():
                wanted = sum(amount for amount, _ in self._waiting) - self._credit
                per_ms = await self._ask(wanted)
                if self._serve():
                    missing = self._waiting[0][0] - self._credit
                    if per_ms > 0:
                        seconds = missing / per_ms / 1000
                    else:
                        seconds = _LONGEST_WAIT
                    await asyncio.sleep(min(max(seconds, _SHORTEST_WAIT), _LONGEST_WAIT))
        except BaseException as error:
            for _, granted in self._waiting:
                if not granted.done():
                    granted.set_exception(error)
            self._waiting.clear()
            if not isinstance(error, Exception):
                raise
        finally:
            # Credit that is left was drawn for a call that was cancelled.
            self._credit = 0.0

    def _serve(self) -> bool:
        """Release the calls that the credit covers, in order; returns whether any still waits."""
        while self._waiting:
            amount, granted = self._waiting[0]
            if not granted.done():
                # The tolerance is for rounding: a call must not wait for a billionth of a token.
                if amount > self._credit + 1e-9:
                    return True
                self._credit -= amount
                granted.set_result(None)
            self._waiting.popleft()
        return False

    async def _ask(self, wanted: float) -> float:

        def work(connection: Connection) -> tuple[float, float]:
            row = one_of(connection, self._take, bucket=self._name, amount=wanted)
            # The limit was removed, so that every call is granted.
            if row is None:
                return (wanted, 1.0)
            return (row["granted"], row["per_ms"])

        granted, per_ms = await self._database.run(work)
        self._credit += granted
        return per_ms
