"""Heartbeats: a counter per worker, which all other workers watch with their own clocks."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Sequence
from typing import NamedTuple

from amplifier_runtime.database.clock import monotonic
from amplifier_runtime.database.database import Connection, Database, all_of, execute, one_of
from amplifier_runtime.turns.claims import CRASH_LIMIT, requeue_turns_of

__all__ = ["DEAD_AFTER_SECONDS", "Liveness", "Observer", "has_worker", "remove_retired"]

logger = logging.getLogger(__name__)


DEAD_AFTER_SECONDS = 5.0
"""How long a silence is that counts as death, unless its settings say otherwise."""

# Shorter silences, as a share of the deadly one, are pauses between beats and not written down.
_WORTH_TELLING = 0.3
# Only for messages to users. Taking over turns needs the exact rule of `Observer`.
_BEAT_LOST_MS = 10_000


class _Beat(NamedTuple):
    """A worker's latest beat, and for how long at least it has been silent since."""

    worker_id: str
    number: int
    silence: float


class _Sight(NamedTuple):
    """A beat, and when this process first saw it."""

    beat: _Beat
    since: float


class Liveness:
    """This worker's own heartbeat."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        *,
        code_version: str,
        concurrency: int,
        accepts: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._code_version = code_version
        self._accepts = list(accepts)
        self._concurrency = concurrency

    async def register(self) -> None:
        """Insert this worker's row, or revive it."""

        def work(connection: Connection) -> None:
            execute(
                connection,
                "INSERT INTO workers (worker_id, address, code_version, accepts, concurrency, "
                "state, beat, beat_at, started_at) VALUES (:worker, :address, :version, :accepts, "
                ":concurrency, 'alive', 1, now_ms(), now_ms()) "
                "ON CONFLICT (worker_id) DO UPDATE SET state = 'alive', "
                "beat = workers.beat + 1, beat_at = excluded.beat_at",
                worker=self._worker_id,
                address=f"{socket.gethostname()}:{os.getpid()}",
                version=self._code_version,
                accepts=json.dumps(self._accepts),
                concurrency=self._concurrency,
            )

        await self._database.run(work)

    async def beat(self) -> bool:
        """Send a heartbeat; returns False if the others have declared this worker dead."""

        def work(connection: Connection) -> bool:
            sql = (
                "UPDATE workers SET beat = beat + 1, beat_at = now_ms() "
                "WHERE worker_id = :worker AND state IN ('alive', 'draining')"
            )
            return execute(connection, sql, worker=self._worker_id) == 1

        return await self._database.run(work)

    async def leave(self, state: str) -> None:
        """Set this worker's state: `draining` when it takes no more turns, or `gone`."""

        def work(connection: Connection) -> None:
            sql = "UPDATE workers SET state = :state WHERE worker_id = :worker"
            execute(connection, sql, worker=self._worker_id, state=state)

        await self._database.run(work)


class Observer:
    """Watches the heartbeats of all workers except its own.

    A worker is dead when its beat has not grown for `dead_after_seconds`. Each observer adds the
    silence that its own monotonic clock measured to what others have recorded: no two machines have
    to agree on the time, and no observer has to outlive the silence. Time in which this process
    could not look, because it was paused or the database was away, does not count.
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

    async def reap_dead_workers(self) -> list[str]:
        """Declare silent workers dead and requeue their turns; returns those workers."""

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
        """Return the silent workers, each with its silence so far."""
        now = monotonic()
        seen = self._seen
        # This process was paused or had no database: beats may have come and gone meanwhile.
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
            # Another observer has recorded a longer silence: continue from that.
            if silence < beat.silence:
                sight = _Sight(beat, now)
            self._seen[beat.worker_id] = sight
            if silence >= self._dead_after * _WORTH_TELLING:
                silent.append(beat._replace(silence=max(silence, beat.silence)))
        return silent

    async def _write_down(self, beat: _Beat) -> None:
        """Record a silence, so that other observers can continue from it if this one dies."""

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
            return requeue_turns_of(connection, worker_id, self._crash_limit)

        turns = await self._database.run(work)
        if turns is None:
            return False
        logger.warning("worker is dead worker=%s turns taken over=%d", worker_id, len(turns))
        return True


def has_worker(connection: Connection) -> bool:
    """Whether a worker that takes turns has sent a heartbeat lately, inside a transaction."""
    sql = "SELECT 1 FROM workers WHERE state = 'alive' AND beat_at > now_ms() - :lost LIMIT 1"
    return one_of(connection, sql, lost=_BEAT_LOST_MS) is not None


def remove_retired(connection: Connection, older_than_seconds: float) -> list[str]:
    """Delete the rows of workers that ended that long ago, inside a transaction; returns them."""
    rows = all_of(
        connection,
        "DELETE FROM workers WHERE state IN ('dead', 'gone') "
        "AND beat_at < now_ms() - CAST(:age AS BIGINT) RETURNING worker_id",
        age=int(older_than_seconds * 1000),
    )
    return [row["worker_id"] for row in rows]
