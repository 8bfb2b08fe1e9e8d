"""Who is alive: a beat that grows, watched by everybody else with their own clocks."""

from __future__ import annotations

import logging
import os
import socket
from typing import NamedTuple

from amplifier_runtime.database.clock import monotonic
from amplifier_runtime.database.database import Connection, Database, all_of, execute, one_of
from amplifier_runtime.turns.claims import CRASH_LIMIT, take_from_the_dead

__all__ = ["DEAD_AFTER_SECONDS", "Liveness", "Observer", "has_worker", "remove_retired"]

logger = logging.getLogger(__name__)


DEAD_AFTER_SECONDS = 5.0
"""How long a silence is that counts as death, unless its settings say otherwise."""

# The share of a deadly silence below which it is only the pause between two beats.
_WORTH_TELLING = 0.3
# Between two moments of the database: enough to tell a user, too coarse to act on.
_BEAT_LOST_MS = 10_000


class _Beat(NamedTuple):
    """A worker's latest beat, and how long at least nothing came after it."""

    worker_id: str
    number: int
    silence: float


class _Sight(NamedTuple):
    """A beat as this process saw it first, and when."""

    beat: _Beat
    since: float


class Liveness:
    """This worker's own beat."""

    def __init__(
        self, database: Database, worker_id: str, *, code_version: str, concurrency: int
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._code_version = code_version
        self._concurrency = concurrency

    async def register(self) -> None:
        """Say that this worker is there."""

        def work(connection: Connection) -> None:
            execute(
                connection,
                "INSERT INTO workers (worker_id, address, code_version, concurrency, state, beat, "
                "beat_at, started_at) VALUES (:worker, :address, :version, :concurrency, 'alive', "
                "1, now_ms(), now_ms()) ON CONFLICT (worker_id) DO UPDATE SET state = 'alive', "
                "beat = workers.beat + 1, beat_at = excluded.beat_at",
                worker=self._worker_id,
                address=f"{socket.gethostname()}:{os.getpid()}",
                version=self._code_version,
                concurrency=self._concurrency,
            )

        await self._database.run(work)

    async def beat(self) -> bool:
        """Say that this worker still lives; False when the others have given it up."""

        def work(connection: Connection) -> bool:
            sql = (
                "UPDATE workers SET beat = beat + 1, beat_at = now_ms() "
                "WHERE worker_id = :worker AND state IN ('alive', 'draining')"
            )
            return execute(connection, sql, worker=self._worker_id) == 1

        return await self._database.run(work)

    async def leave(self, state: str) -> None:
        """Say that this worker takes no turns any more (`draining`), or is `gone`."""

        def work(connection: Connection) -> None:
            sql = "UPDATE workers SET state = :state WHERE worker_id = :worker"
            execute(connection, sql, worker=self._worker_id, state=state)

        await self._database.run(work)


class Observer:
    """Watches the beats of all workers but one, its own, if it has any.

    Somebody is dead when their beat has not grown for `dead_after_seconds`. Each observer adds what
    its own monotonic clock has seen to what others have written down before it: no two machines
    have to agree on the time, and no single one has to live that long to see it. What happened
    while this process could not look, because it was paused or the database was away, says nothing
    about others.
    """

    def __init__(
        self,
        database: Database,
        worker_id: str = "",
        *,
        dead_after_seconds: float = DEAD_AFTER_SECONDS,
        crash_limit: int = CRASH_LIMIT,
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._dead_after = dead_after_seconds
        self._crash_limit = crash_limit
        self._seen: dict[str, _Sight] = {}
        self._looked_at = monotonic()

    async def bury_the_dead(self) -> list[str]:
        """Take the turns of workers that beat no more; returns those workers."""

        def read(connection: Connection) -> list[_Beat]:
            rows = all_of(
                connection,
                "SELECT worker_id, beat, CASE WHEN silent_beat = beat THEN silence_ms ELSE 0 END "
                "AS silence_ms FROM workers "
                "WHERE state IN ('alive', 'draining') AND worker_id <> :worker",
                worker=self._worker_id,
            )
            return [_Beat(row["worker_id"], row["beat"], row["silence_ms"] / 1000) for row in rows]

        buried: list[str] = []
        for beat in self._look(await self._database.run(read)):
            if beat.silence < self._dead_after:
                await self._write_down(beat)
            elif await self._bury(beat.worker_id, beat.number):
                buried.append(beat.worker_id)
        return buried

    def _look(self, beats: list[_Beat]) -> list[_Beat]:
        """Return who is silent, and how long at least."""
        now = monotonic()
        seen = self._seen
        if now - self._looked_at > self._dead_after / 2:
            seen = {}
        self._looked_at = now
        self._seen = {}
        silent: list[_Beat] = []
        for beat in beats:
            sight = seen.get(beat.worker_id)
            if sight is None or sight.beat.number != beat.number:
                sight = _Sight(beat, now)
            silence = sight.beat.silence + now - sight.since
            if silence < beat.silence:
                sight = _Sight(beat, now)
            self._seen[beat.worker_id] = sight
            if silence >= self._dead_after * _WORTH_TELLING:
                silent.append(beat._replace(silence=max(silence, beat.silence)))
        return silent

    async def _write_down(self, beat: _Beat) -> None:
        """Let others count on what was seen here, should they be the ones who live to act on it."""

        def work(connection: Connection) -> None:
            execute(
                connection,
                "UPDATE workers SET silent_beat = beat, silence_ms = :silence "
                "WHERE worker_id = :worker AND beat = :beat "
                "AND (silent_beat <> beat OR silence_ms < :silence)",
                worker=beat.worker_id,
                beat=beat.number,
                silence=int(beat.silence * 1000),
            )

        await self._database.run(work)

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


def has_worker(connection: Connection) -> bool:
    """Whether a worker that takes turns has beaten lately, inside a transaction."""
    sql = "SELECT 1 FROM workers WHERE state = 'alive' AND beat_at > now_ms() - :lost LIMIT 1"
    return one_of(connection, sql, lost=_BEAT_LOST_MS) is not None


def remove_retired(connection: Connection, older_than_seconds: float) -> list[str]:
    """Remove the rows of workers that ended so long ago, inside a transaction; returns them."""
    rows = all_of(
        connection,
        "DELETE FROM workers WHERE state IN ('dead', 'gone') "
        "AND beat_at < now_ms() - CAST(:age AS BIGINT) RETURNING worker_id",
        age=int(older_than_seconds * 1000),
    )
    return [row["worker_id"] for row in rows]
