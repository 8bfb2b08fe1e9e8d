"""Who is alive: a beat that grows, watched by everybody else with their own clocks."""

from __future__ import annotations

import logging
import os
import socket

from amplifier_runtime.claims import take_from_the_dead
from amplifier_runtime.clock import monotonic, now_ms
from amplifier_runtime.database import Connection, Database, Row, all_of, execute

__all__ = ["Liveness"]

logger = logging.getLogger(__name__)


class Liveness:
    """This worker's own beat, and its view of the others'.

    Somebody is dead when their beat has not grown for `dead_after_seconds` of this process's
    monotonic clock: no two machines have to agree on the time. What happened while this process
    could not look, because it was paused or the database was away, says nothing about others.
    """

    def __init__(
        self,
        database: Database,
        worker_id: str,
        *,
        code_version: str,
        concurrency: int,
        dead_after_seconds: float,
        crash_limit: int,
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._code_version = code_version
        self._concurrency = concurrency
        self._dead_after = dead_after_seconds
        self._crash_limit = crash_limit
        self._seen: dict[str, tuple[int, float]] = {}
        self._looked_at = monotonic()

    async def register(self) -> None:
        """Say that this worker is there."""

        def work(connection: Connection) -> None:
            execute(
                connection,
                "INSERT INTO workers (worker_id, address, code_version, concurrency, state, beat, "
                "beat_at, started_at) VALUES (:worker, :address, :version, :concurrency, 'alive', "
                "1, :now, :now) ON CONFLICT (worker_id) DO UPDATE SET state = 'alive', "
                "beat = workers.beat + 1, beat_at = excluded.beat_at",
                worker=self._worker_id,
                address=f"{socket.gethostname()}:{os.getpid()}",
                version=self._code_version,
                concurrency=self._concurrency,
                now=now_ms(),
            )

        await self._database.run(work)

    async def beat(self) -> bool:
        """Say that this worker still lives; False when the others have given it up."""

        def work(connection: Connection) -> bool:
            sql = (
                "UPDATE workers SET beat = beat + 1, beat_at = :now "
                "WHERE worker_id = :worker AND state IN ('alive', 'draining')"
            )
            return execute(connection, sql, worker=self._worker_id, now=now_ms()) == 1

        return await self._database.run(work)

    async def leave(self, state: str) -> None:
        """Say that this worker takes no turns any more (`draining`), or is `gone`."""

        def work(connection: Connection) -> None:
            sql = "UPDATE workers SET state = :state WHERE worker_id = :worker"
            execute(connection, sql, worker=self._worker_id, state=state)

        await self._database.run(work)

    async def bury_the_dead(self) -> list[str]:
        """Take the turns of workers that beat no more; returns those workers."""

        def read(connection: Connection) -> list[tuple[str, int]]:
            rows = all_of(
                connection,
                "SELECT worker_id, beat FROM workers "
                "WHERE state IN ('alive', 'draining') AND worker_id <> :worker",
                worker=self._worker_id,
            )
            return [_beat(row) for row in rows]

        silent = self._silent(await self._database.run(read))
        buried: list[str] = []
        for worker_id, beat in silent:
            if await self._bury(worker_id, beat):
                buried.append(worker_id)
        return buried

    def _silent(self, beats: list[tuple[str, int]]) -> list[tuple[str, int]]:
        now, seen = monotonic(), self._seen
        if now - self._looked_at > self._dead_after / 2:
            seen = {}
        self._looked_at, self._seen = now, {}
        silent: list[tuple[str, int]] = []
        for worker_id, beat in beats:
            known = seen.get(worker_id)
            since = known[1] if known is not None and known[0] == beat else now
            self._seen[worker_id] = (beat, since)
            if now - since >= self._dead_after:
                silent.append((worker_id, beat))
        return silent

    async def _bury(self, worker_id: str, beat: int) -> bool:
        def work(connection: Connection) -> list[str] | None:
            sql = (
                "UPDATE workers SET state = 'dead' WHERE worker_id = :worker AND beat = :beat "
                "AND state IN ('alive', 'draining')"
            )
            if execute(connection, sql, worker=worker_id, beat=beat) == 0:
                return None
            return take_from_the_dead(connection, worker_id, self._crash_limit)

        turns = await self._database.run(work)
        if turns is None:
            return False
        logger.warning("worker is dead worker=%s turns taken over=%d", worker_id, len(turns))
        return True


def _beat(row: Row) -> tuple[str, int]:
    return row["worker_id"], row["beat"]
