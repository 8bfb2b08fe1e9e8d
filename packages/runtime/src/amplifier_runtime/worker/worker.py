"""The worker: claims and runs turns, sends heartbeats, takes over from dead workers, drains."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType

from sqlalchemy.exc import OperationalError

from amplifier_core.session import AmplifierSession
from amplifier_foundation.guards import with_required_guards
from amplifier_foundation.plan_shape import checked_plan
from amplifier_runtime.database.clock import monotonic
from amplifier_runtime.database.connections import is_full
from amplifier_runtime.database.database import Database, read_now
from amplifier_runtime.database.engine import Engine
from amplifier_runtime.database.migrate import check_schema
from amplifier_runtime.database.row_keys import new_id
from amplifier_runtime.database.store import finished_among
from amplifier_runtime.errors import DurableError, Fenced, LeaveTimeoutError, SchemaError
from amplifier_runtime.turns.claims import CRASH_LIMIT, Claim, Claims
from amplifier_runtime.turns.plan_keys import PlanKeys
from amplifier_runtime.turns.turn_run import DRAIN, Boundary, TurnPart
from amplifier_runtime.turns.turn_runner import OpenSession, TurnRunner
from amplifier_runtime.worker.liveness import DEAD_AFTER_SECONDS, Liveness, Observer, remove_retired
from amplifier_sandbox.platforms.signals import on_signals

__all__ = ["Worker", "WorkerSettings", "open_session", "run_worker"]

logger = logging.getLogger(__name__)

# How long the engine may take to hand over a turn; it retries by itself before that.
_BEGIN_SECONDS = 10.0
# Every so many sweeps, one also looks for leftovers that are rare.
_SWEEPS_UNTIL_REST = 60


def open_session(claim: Claim) -> AmplifierSession:
    """Return the session of a turn, built from its plan alone."""
    return AmplifierSession(
        with_required_guards(checked_plan(claim.plan)),
        session_id=claim.session_name or claim.session_id,
        parent_id=claim.parent_id,
        is_resumed=claim.ordinal > 1,
    )


def _nothing(boundary: str) -> None:
    """Ignore boundaries."""


@dataclass(frozen=True)
class WorkerSettings:
    """How one worker works; `url` is `sqlite:///path` or `postgresql://...`.

    `accepts` are the other code versions whose turns this one can continue. With the defaults, a
    dead worker's turns run elsewhere after about 5 to 7 seconds.

    `connections` is the most connections to PostgreSQL that it opens, for everything; with a
    `database` that it shares with its parts, those of that database are used.

    A worker that leaves has ended after `leave_seconds`, plus `drain_seconds` if it has turns,
    whether the database answers or not.
    """

    url: str
    concurrency: int = 16
    code_version: str = "1"
    accepts: Sequence[str] = ()
    beat_seconds: float = 1.0
    dead_after_seconds: float = DEAD_AFTER_SECONDS
    poll_seconds: float = 0.2
    drain_seconds: float = 30.0
    leave_seconds: float = 10.0
    crash_limit: int = CRASH_LIMIT
    keep_journal_seconds: float = 86_400.0
    sweep_seconds: float = 60.0
    connections: int = 20
    database: Database | None = None
    parts: Sequence[TurnPart] = ()
    open_session: OpenSession = open_session
    boundary: Boundary = field(default=_nothing)


class Worker:
    """Runs turns until it is left: `async with Worker(settings) as worker`.

    Leaving drains: running turns are handed over at their next step.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.worker_id = new_id("worker")
        self.database = settings.database or Database(
            settings.url, connections=settings.connections
        )
        self._liveness = Liveness(
            self.database,
            self.worker_id,
            code_version=settings.code_version,
            concurrency=settings.concurrency,
            accepts=settings.accepts,
        )
        self._observer = Observer(
            self.database,
            self.worker_id,
            dead_after_seconds=settings.dead_after_seconds,
            crash_limit=settings.crash_limit,
        )
        versions = (settings.code_version, *settings.accepts)
        self.claims = Claims(
            self.database, self.worker_id, versions, crash_limit=settings.crash_limit
        )
        self.runner = TurnRunner(
            self.claims,
            open_session=settings.open_session,
            parts=settings.parts,
            boundary=settings.boundary,
            fence_check=self._check_fence,
            find_keys=lambda claim: PlanKeys(self.database, claim.tenant_id),
        )
        self._engine = Engine(
            settings.url,
            self.worker_id,
            self._run_turn,
            connections=settings.connections,
            shared=None if self.database.is_sqlite else self.database.engine,
        )
        # Claims by turn, and for those that have not begun, since when the engine knows of them.
        self._held: dict[str, Claim] = {}
        # How many of them only wait for a child, which may need their slot.
        self.resting = 0
        self._unbegun: dict[str, float] = {}
        self._unknown: set[str] = set()
        self._beaten_at = monotonic()
        self._beaten = asyncio.Event()
        self.failure: DurableError | None = None
        self.leaving = asyncio.Event()
        self._is_leaving = False
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def running(self) -> int:
        """How many turns this worker has claimed."""
        return len(self._held)

    def leave(self, because: DurableError | None = None) -> None:
        """Have `run_worker` drain and end this worker, with an error if there is one."""
        self.failure = self.failure or because
        self.leaving.set()

    def wake(self) -> None:
        """Look for turns now instead of at the next poll."""
        self._wake.set()

    async def __aenter__(self) -> Worker:
        await self._arrive()
        await self._engine.launch()
        for part in self.settings.parts:
            await part.join(self)
        loops = (self._take_turns, self._beat, self._watch, self._sweep)
        self._tasks = [asyncio.create_task(_lasting(each)) for each in loops]
        return self

    async def _arrive(self) -> None:
        """Register, as soon as the database has a free connection for this worker."""
        while True:
            try:
                await check_schema(self.database)
                await self._register()
            except OperationalError as error:
                if error.orig is None or not is_full(error.orig):
                    raise
                logger.warning("worker waits for a connection worker=%s", self.worker_id)
            else:
                return

    async def _register(self) -> None:
        """Register, unless the tables are too new for this code by then."""
        await self._liveness.register()
        try:
            # Again: a breaking migration is refused only while a registered worker is alive, and
            # may have been applied just before this one registered.
            await check_schema(self.database)
        except SchemaError:
            await self._liveness.leave("gone")
            raise

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Drain and leave, or leave without the database if it does not answer.

        Raises:
            LeaveTimeoutError: it did not answer. Threads may still wait for it and are joined when
                Python exits, so that only `os._exit` ends the process.
        """
        seconds = self.settings.leave_seconds
        if self._held:
            seconds += self.settings.drain_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._leave()
        except TimeoutError:
            raise LeaveTimeoutError(seconds, len(self._held)) from None

    async def _leave(self) -> None:
        await self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for part in self.settings.parts:
            await part.leave()
        await self._liveness.leave("gone")
        await self._engine.close()
        if self.settings.database is None:
            # In a thread, because `close` joins threads that may wait for an answer for ever.
            await asyncio.to_thread(self.database.close)

    async def drain(self) -> None:
        """Claim no more turns, and hand the running ones over, each at its next step."""
        self._is_leaving = True
        # Before anything is awaited: with a slow database, runs would begin another step meanwhile.
        for run in list(self.runner.runs.values()):
            run.stop(DRAIN)
        await self._liveness.leave("draining")
        until = monotonic() + self.settings.drain_seconds
        while self._held and monotonic() < until:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.poll_seconds):
                    await self._wake.wait()
            for run in list(self.runner.runs.values()):
                run.stop(DRAIN)
        for turn_id, claim in list(self._held.items()):
            logger.warning("turn given up before its next step turn=%s", turn_id)
            run = self.runner.runs.get(turn_id)
            if run is not None:
                run.end(Fenced())
            await self.claims.give_back(claim)

    async def _take_turns(self) -> None:
        while not self._is_leaving:
            self._wake.clear()
            free = self.settings.concurrency - len(self._held) + self.resting
            claims = await self.claims.take(free) if free > 0 else []
            for claim in claims:
                self._held[claim.turn_id] = claim
                # Not late before the engine has been asked to start it.
                self._unbegun[claim.turn_id] = math.inf
                self.settings.boundary("claimed")
            await asyncio.gather(*map(self._begin, claims))
            if not claims:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.settings.poll_seconds):
                        await self._wake.wait()

    async def _begin(self, claim: Claim) -> None:
        try:
            await self._engine.start(claim.turn_id, is_new=claim.runs == 1)
        except Exception:
            logger.exception("turn not started turn=%s", claim.turn_id)
            self._drop(claim)
            await self.claims.give_back(claim, delay_seconds=1.0)
        else:
            if claim.turn_id in self._unbegun:
                self._unbegun[claim.turn_id] = monotonic()

    async def _run_turn(self, turn_id: str) -> None:
        claim = self._held.get(turn_id)
        if claim is None or turn_id not in self._unbegun:
            # The engine was late: this worker has given the turn back meanwhile.
            raise Fenced
        del self._unbegun[turn_id]
        try:
            await self.runner.run(claim, self._engine)
        finally:
            self._drop(claim)

    def _drop(self, claim: Claim) -> None:
        if self._held.get(claim.turn_id) is claim:
            del self._held[claim.turn_id]
            self._unbegun.pop(claim.turn_id, None)
        self._wake.set()

    async def _beat(self) -> None:
        while True:
            # Taken before the beat: measured after a slow write, it would look younger than it is.
            began = monotonic()
            if not await self._liveness.beat():
                logger.warning("worker was given up by the others worker=%s", self.worker_id)
                for run in list(self.runner.runs.values()):
                    run.end(Fenced())
                if not self._is_leaving:
                    await self._come_back()
            self._beaten_at = began
            self._beaten.set()
            await asyncio.sleep(self.settings.beat_seconds)

    async def _come_back(self) -> None:
        try:
            await self._register()
        except SchemaError as error:
            self.leave(error)
        else:
            await self._engine.listen()

    async def _check_fence(self) -> None:
        """Wait until the last beat is too recent for this worker to have been declared dead."""
        while monotonic() - self._beaten_at >= self.settings.dead_after_seconds:
            self._beaten.clear()
            await self._beaten.wait()

    async def _watch(self) -> None:
        while True:
            if await self._observer.reap_dead_workers():
                self._wake.set()
            await self._give_back_lost()
            await asyncio.sleep(self.settings.beat_seconds)

    async def _sweep(self) -> None:
        keep = self.settings.keep_journal_seconds
        for number in itertools.count(1):
            await asyncio.sleep(self.settings.sweep_seconds)
            # The engine dates its journals by the database's clock, too.
            before_ms = await self.database.run(read_now) - int(keep * 1000)
            while await self._engine.sweep(before_ms):
                pass
            if number % _SWEEPS_UNTIL_REST == 0:
                await self._sweep_rest(keep, before_ms)

    async def _sweep_rest(self, keep_seconds: float, before_ms: int) -> None:
        """Remove leftovers: journals of turns that ended without a run, and rows of old workers."""

        async def are_over(turns: list[str]) -> list[str]:
            return await self.database.run(partial(finished_among, turn_ids=turns))

        await self._engine.sweep_unended(before_ms, are_over)
        # Only after a while: a worker that was declared dead by mistake still needs its queue.
        for worker_id in await self.database.run(
            partial(remove_retired, older_than_seconds=keep_seconds)
        ):
            await self._engine.forget(worker_id)

    async def _give_back_lost(self) -> None:
        """Give back turns that the engine did not hand over, and claims of a lost confirmation."""
        late = monotonic() - _BEGIN_SECONDS
        for turn_id in [each for each, since in self._unbegun.items() if since < late]:
            claim = self._held[turn_id]
            logger.warning("turn was not handed over by the engine turn=%s", turn_id)
            self._drop(claim)
            await self.claims.give_back(claim)
        unknown = await self.claims.mine() - set(self._held)
        # Only if seen twice in a row: a turn that is being claimed or given back is not lost.
        await self.claims.disown(unknown & self._unknown)
        self._unknown = unknown


async def _lasting(work: Callable[[], Awaitable[None]]) -> None:
    """Restart `work` when it fails: a worker must not lose one of its loops silently."""
    while True:
        try:
            await work()
            return
        except Exception:
            logger.exception("worker continues after a failure in %s", work)
            await asyncio.sleep(1.0)


async def run_worker(
    settings: WorkerSettings, *, on_ready: Callable[[Worker], None] | None = None
) -> None:
    """Run a worker until SIGTERM, SIGINT or `Worker.leave`, then drain.

    `on_ready` is called when it runs turns and a signal would drain it.

    Raises:
        LeaveTimeoutError: the database did not answer while it left.
    """
    # Around the worker: a second signal must not end it while it drains.
    with contextlib.ExitStack() as handlers:
        await _run_until_left(settings, handlers, on_ready)


async def _run_until_left(
    settings: WorkerSettings,
    handlers: contextlib.ExitStack,
    on_ready: Callable[[Worker], None] | None,
) -> None:
    async with Worker(settings) as worker:
        handlers.enter_context(on_signals(worker.leave))
        if on_ready is not None:
            on_ready(worker)
        await worker.leaving.wait()
    if worker.failure is not None:
        raise worker.failure
