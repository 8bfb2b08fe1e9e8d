"""`amplifier worker`: runs turns until it is drained, by a signal or from any machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys

import click
from sqlalchemy.exc import SQLAlchemyError

from amplifier_runtime.commands.address import database_option, failure_of, shown
from amplifier_runtime.commands.output import say
from amplifier_runtime.database.database import Connection, Database, one_of
from amplifier_runtime.errors import DurableError, LeaveTimeoutError
from amplifier_runtime.turns.turn_run import Host, TurnPart
from amplifier_runtime.worker.worker import WorkerSettings, run_worker
from amplifier_runtime.worker_parts import all_parts

__all__ = ["all_parts", "worker"]

logger = logging.getLogger(__name__)

_DEFAULTS = WorkerSettings("")


class _Orders(TurnPart):
    """Drains the worker when `amplifier runtime drain` asks for it."""

    def __init__(self, look_seconds: float) -> None:
        self._look_seconds = look_seconds
        self._task: asyncio.Task[None] | None = None

    async def join(self, host: Host) -> None:
        self._task = asyncio.create_task(self._obey(host))

    async def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _obey(self, host: Host) -> None:
        def is_draining(connection: Connection) -> bool:
            sql = "SELECT 1 FROM workers WHERE worker_id = :worker AND state = 'draining'"
            return one_of(connection, sql, worker=host.worker_id) is not None

        while True:
            await asyncio.sleep(self._look_seconds)
            try:
                if await host.database.run(is_draining):
                    say(f"{host.worker_id} was asked to leave.")
                    # Stop polling: a worker that leaves sets its own row to `draining`, too.
                    host.leave()
                    return
            except Exception:
                logger.exception("orders not read worker=%s", host.worker_id)


@click.command()
@database_option
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=_DEFAULTS.concurrency,
    show_default=True,
    help="How many turns run in parallel.",
)
@click.option(
    "--code-version",
    default=_DEFAULTS.code_version,
    show_default=True,
    help="Change it when turns begun by the code before cannot be continued by this code.",
)
@click.option(
    "--accepts",
    multiple=True,
    metavar="VERSION",
    help="Other code versions whose turns this one can continue; may be repeated.",
)
@click.option(
    "--connections",
    type=click.IntRange(2),
    default=_DEFAULTS.connections,
    show_default=True,
    help="Connections to PostgreSQL at most; it opens them as it needs them.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0),
    default=_DEFAULTS.drain_seconds,
    show_default=True,
    help="How long a turn has to come to its next step when this worker is asked to leave.",
)
@click.option(
    "--leave-seconds",
    type=click.FloatRange(0, min_open=True),
    default=_DEFAULTS.leave_seconds,
    show_default=True,
    help="How long this worker waits beyond that for a database that does not answer.",
)
def worker(
    url: str,
    concurrency: int,
    code_version: str,
    accepts: tuple[str, ...],
    connections: int,
    drain_seconds: float,
    leave_seconds: float,
) -> None:
    """Run durable turns until SIGTERM or Ctrl-C, then hand them over.

    Any number of workers may run on one database, on any number of machines.

    The exit status is 0 when the worker has left in good order, and 75 when the database did not
    answer meanwhile: other workers take over what it had.
    """
    logging.basicConfig(level=logging.WARNING)
    greeting = (
        f"runs up to {concurrency} turns of {shown(url)} with code {code_version}. "
        "Ctrl-C hands them over and ends it."
    )
    orders = _Orders(_DEFAULTS.beat_seconds)
    try:
        database = Database(url, connections=connections)
        try:
            settings = WorkerSettings(
                url,
                concurrency=concurrency,
                code_version=code_version,
                accepts=accepts,
                connections=connections,
                drain_seconds=drain_seconds,
                leave_seconds=leave_seconds,
                database=database,
                parts=[*all_parts(database), orders],
            )
            asyncio.run(_run(settings, greeting))
        finally:
            database.close()
    except (DurableError, SQLAlchemyError) as error:
        raise failure_of(error, url) from error


async def _run(settings: WorkerSettings, greeting: str) -> None:
    try:
        await run_worker(settings, on_ready=lambda worker: say(f"{worker.worker_id} {greeting}"))
    except LeaveTimeoutError as error:
        say(f"{error}\nSee who is there with: amplifier runtime status")
        sys.stdout.flush()
        # Not `sys.exit`: at exit Python joins the threads that still wait for the database.
        os._exit(error.exit_code)


if __name__ == "__main__":
    worker()
