"""The engine: configures and launches DBOS; no other file imports it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, Serializer, SetWorkflowID
from dbos import error as dbos_error

from amplifier_runtime.database.clock import iso
from amplifier_runtime.database.database import IDLE_SECONDS, persistently
from amplifier_runtime.database.store import from_json, to_json
from amplifier_runtime.errors import Fenced
from amplifier_sandbox.platforms.locks import locked_folder

__all__ = ["Engine", "Write", "make_tables"]

logger = logging.getLogger(__name__)

Write = Callable[[str, Any], Awaitable[None]]
"""Journals a value under a key, durably; raises Fenced when the run has lost its turn."""

# Constant: which code may continue a turn is decided by `turns.code_version`, not by the engine.
_VERSION = "amplifier"
_NAME = "amplifier.turn"
_SWEPT_TOGETHER = 500
# How often the engine polls for resumed turns; new ones start immediately.
_POLL_SECONDS = 0.2

_run_turn: Callable[[str], Awaitable[None]] | None = None


def _is_of_interest(record: logging.LogRecord) -> bool:
    """Whether a log message of the engine is worth showing.

    It checks through the database `postgres` whether its own exists. A role that owns one database
    may not connect there, and ours exists: our tables are already in it.
    """
    return not record.getMessage().startswith("Could not connect to postgres database to verify")


logging.getLogger("dbos").addFilter(_is_of_interest)


@DBOS.step(name="amplifier.loop")
async def _loop(turn_id: str) -> str:
    """Run the whole loop of a turn as one step; its calls are journaled by key, not by position."""
    assert _run_turn is not None
    await _run_turn(turn_id)
    return turn_id


@DBOS.workflow(name=_NAME)
async def _turn(turn_id: str) -> str:
    return await _loop(turn_id)


class _Json(Serializer):
    """JSON instead of the engine's pickles, which can execute code when they are loaded."""

    def serialize(self, data: Any) -> str:
        return to_json(data)

    def deserialize(self, serialized_data: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - its first parameter has another name there
        return from_json(serialized_data)

    def name(self) -> str:
        return "amplifier_json"


def make_tables(url: str) -> None:
    """Bring the engine's own tables up to date, in the calling thread."""
    with _alone(url):
        DBOS.migrate(url)


@contextlib.contextmanager
def _alone(url: str) -> Generator[None]:
    """Lock out other processes that create tables in the same SQLite file.

    On PostgreSQL the engine does so itself.
    """
    address = sa.make_url(url)
    if address.get_backend_name() != "sqlite" or not address.database:
        yield
        return
    # The folder and not the file: closing a descriptor of the file would release SQLite's locks.
    with locked_folder(Path(address.database).absolute().parent):
        yield


class Engine:
    """The engine of this process; there can be only one.

    `run_turn` is called for every turn that runs here, inside the turn's workflow.
    """

    def __init__(
        self,
        url: str,
        worker_id: str,
        run_turn: Callable[[str], Awaitable[None]],
        *,
        connections: int,
        shared: sa.Engine | None = None,
    ) -> None:
        """With `shared`, the engine uses the worker's connection pool.

        A worker with its own pool could claim turns and then have no connection to journal them.
        """
        self._url = url
        self._shared = shared
        self._worker_id = worker_id
        self._run_turn = run_turn
        self._connections = connections
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="amplifier-journal")

    async def launch(self) -> None:
        """Connect, bring the engine's own tables up to date and begin to run turns."""
        global _run_turn
        _run_turn = self._run_turn
        config: DBOSConfig = {
            "name": "amplifier",
            "system_database_url": self._url,
            "sys_db_pool_size": self._connections,
            "sys_db_idle_transaction_timeout_sec": IDLE_SECONDS,
            "executor_id": self._worker_id,
            "application_version": _VERSION,
            "serializer": _Json(),
            # Nobody waits for the engine's events, and PostgreSQL serializes the commits of
            # transactions that notify.
            "use_listen_notify": False,
            # The poller that replaces it finds nothing, but `close` waits for its last pause.
            "notification_listener_polling_interval_sec": 0.1,
            "log_level": "WARNING",
        }
        if self._shared is not None:
            config["system_database_engine"] = self._shared
        DBOS(config=config)
        DBOS.listen_queues([self._worker_id])
        DBOS.launch()
        await self.listen()

    async def listen(self) -> None:
        """Register the queue for resumed turns, again if another worker has deleted it."""
        await DBOS.register_queue_async(self._worker_id, polling_interval_sec=_POLL_SECONDS)

    async def start(self, turn_id: str, *, is_new: bool) -> None:
        """Run a turn on this worker: for the first time, or again with its journal."""
        if not is_new:
            try:
                await DBOS.resume_workflow_async(turn_id, queue_name=self._worker_id)
            except dbos_error.DBOSNonExistentWorkflowError:
                # A worker died between the claim and the start of the workflow.
                logger.info("turn was claimed and never begun turn=%s", turn_id)
            else:
                return
        with SetWorkflowID(turn_id):
            await DBOS.start_workflow_async(_turn, turn_id)

    def writer(self) -> Write:
        """Return a function that journals for the turn whose workflow runs here, from any task."""
        # The engine finds its workflow by a context variable; the loop writes from other tasks.
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()

        async def write(key: str, value: Any) -> None:
            try:
                # Safe to retry: a second write has the same key and the same fence.
                set_event = partial(persistently, partial(DBOS.set_event, key, value))
                await loop.run_in_executor(self._threads, context.copy().run, set_event)
            except dbos_error.DBOSWorkflowConflictIDError:
                raise Fenced from None

        return write

    async def entries(self, turn_id: str) -> dict[str, Any]:
        """Return all journal entries of a turn."""
        return await DBOS.get_all_events_async(turn_id)

    async def sweep(self, before_ms: int) -> int:
        """Remove the journals of turns that ended before that time; returns how many."""
        ended = await self._ids(status="SUCCESS", completed_before=iso(before_ms))
        await self._remove(ended)
        return len(ended)

    async def sweep_unended(
        self, before_ms: int, are_over: Callable[[list[str]], Awaitable[list[str]]]
    ) -> None:
        """Remove journals begun before that time whose end the engine has not seen.

        `are_over` returns those of the given turns that have ended, for example by a cancellation.
        """
        offset = 0
        while turns := await self._ids(
            status=["PENDING", "ENQUEUED"], end_time=iso(before_ms), offset=offset
        ):
            over = await are_over(turns)
            await self._remove(over)
            # Removed ones move the rest of the list up; those that stay are skipped.
            offset += len(turns) - len(over)

    async def _remove(self, turn_ids: list[str]) -> None:
        if turn_ids:
            await DBOS.delete_workflows_async(turn_ids)

    async def _ids(self, **which: Any) -> list[str]:
        found = await DBOS.list_workflows_async(
            name=_NAME, limit=_SWEPT_TOGETHER, load_input=False, load_output=False, **which
        )
        return [each.workflow_id for each in found]

    async def forget(self, worker_id: str) -> None:
        """Remove the queue of a worker that has ended."""
        await DBOS.delete_queue_async(worker_id)

    async def close(self) -> None:
        """Stop running turns."""
        loop = asyncio.get_running_loop()
        await self.forget(self._worker_id)
        await loop.run_in_executor(self._threads, DBOS.destroy)
        # The engine had installed its own thread pool as the loop's default, and has shut it down.
        loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio"))
        self._threads.shutdown(wait=False)
