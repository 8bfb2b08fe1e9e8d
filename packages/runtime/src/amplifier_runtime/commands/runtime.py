"""`amplifier runtime`: commands for operators of the database and the workers."""

from __future__ import annotations

import asyncio

import click

from amplifier_foundation.errors import FoundationError
from amplifier_runtime.commands.address import database_option, run_on, shown
from amplifier_runtime.commands.output import say
from amplifier_runtime.commands.secrets import secrets
from amplifier_runtime.commands.status import describe, describe_session
from amplifier_runtime.database.clock import monotonic
from amplifier_runtime.database.database import Connection, Database, all_of, execute, one_of
from amplifier_runtime.database.migrate import check_schema, migrate, pending
from amplifier_runtime.database.row_keys import name_of
from amplifier_runtime.database.store import hold_session
from amplifier_runtime.errors import NotFoundError
from amplifier_runtime.worker.liveness import Observer

__all__ = ["runtime"]

_LOOK_SECONDS = 0.2
# The final states of a worker that was asked to drain.
_LEFT = {"gone": "has left", "dead": "was dead; its turns are for others now"}


@click.group()
def runtime() -> None:
    """Manage the database and the workers of durable sessions."""


runtime.add_command(secrets)


@runtime.command("migrate")
@database_option
@click.option("--dry-run", is_flag=True, help="Name what would be applied and change nothing.")
def migrate_(url: str, dry_run: bool) -> None:
    """Migrate the tables to the schema of this version."""
    todo = run_on(url, pending if dry_run else migrate)
    for each in todo:
        say(f"{'would apply' if dry_run else 'applied'} {each.name}")
        if dry_run and each.is_breaking:
            say("  breaks older workers: drain them first")
    if not todo:
        say(f"{shown(url)} is up to date.")


@runtime.command()
@database_option
@click.argument("session", required=False)
def status(url: str, session: str | None) -> None:
    """Show workers and turns, or whether one SESSION is durable and how far it has come."""
    lines = run_on(url, lambda database: _lines(database, session))
    width = max(len(label) for label, _ in lines)
    for label, text in lines:
        say(f"{label:<{width}}  {text}".rstrip())


async def _lines(database: Database, session: str | None) -> list[tuple[str, str]]:
    return await (describe(database) if session is None else describe_session(database, session))


@runtime.command()
@database_option
@click.argument("worker", required=False)
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="How many seconds they have to leave; 0 does not wait.",
)
def drain(url: str, worker: str | None, seconds: float) -> None:
    """Let WORKER, or all workers, hand over their turns and leave."""
    told = run_on(url, lambda database: _drain(database, worker, seconds))
    for worker_id, state in told.items():
        say(f"{worker_id} {_LEFT.get(state, 'was asked to leave')}")
    if not told:
        say("No worker is running.")
    staying = sum(state not in _LEFT for state in told.values())
    if staying and seconds:
        raise FoundationError(
            f"{staying} of {len(told)} workers have not left after {seconds:g} s.",
            why="A worker waits for the running step of each turn.",
            fix="amplifier runtime status",
        )


async def _drain(database: Database, worker: str | None, seconds: float) -> dict[str, str]:
    """Ask workers to drain, and return the state that each reached in time."""

    def tell(connection: Connection) -> list[str]:
        rows = all_of(
            connection,
            "UPDATE workers SET state = 'draining' WHERE state IN ('alive', 'draining') "
            "AND worker_id = COALESCE(CAST(:worker AS TEXT), worker_id) RETURNING worker_id",
            worker=worker,
        )
        return sorted(row["worker_id"] for row in rows)

    def states(connection: Connection) -> dict[str, str]:
        rows = all_of(connection, "SELECT worker_id, state FROM workers")
        known = {row["worker_id"]: row["state"] for row in rows}
        return {worker_id: known.get(worker_id, "gone") for worker_id in told}

    await check_schema(database)
    told = await database.run(tell)
    if worker is not None and not told:
        raise NotFoundError("running worker", worker)
    # No other worker may be left that would declare the last one dead.
    observer = Observer(database)
    until = monotonic() + seconds
    found = dict.fromkeys(told, "draining")
    while not _LEFT.keys() >= set(found.values()) and monotonic() < until:
        await asyncio.sleep(_LOOK_SECONDS)
        await observer.reap_dead_workers()
        found = await database.run(states)
    return found


@runtime.command()
@database_option
@click.argument("turn")
def requeue(url: str, turn: str) -> None:
    """Requeue a TURN that was parked because its workers crashed."""
    run_on(url, lambda database: _requeue(database, turn))
    say(f"{turn} is ready again.")


async def _requeue(database: Database, turn_id: str) -> None:
    def work(connection: Connection) -> None:
        sql = "SELECT session_id, state, reason FROM turns WHERE turn_id = :turn"
        row = one_of(connection, sql, turn=turn_id)
        if row is None:
            raise NotFoundError("turn", turn_id)
        hold_session(connection, row["session_id"])
        changed = execute(
            connection,
            "UPDATE turns SET state = 'ready', reason = NULL, crashes = 0 "
            "WHERE turn_id = :turn AND state = 'parked' AND reason = 'crashed'",
            turn=turn_id,
        )
        # A commit whose confirmation was lost is retried, and then it is ready already.
        if not changed and row["state"] != "ready":
            if row["reason"]:
                reason = f", waiting for {row['reason']}"
            else:
                reason = ""
            raise FoundationError(
                f"Turn `{turn_id}` was not parked for crashing: it is {row['state']}{reason}.",
                fix=f"amplifier runtime status {name_of(connection, row['session_id'])}",
            )

    await check_schema(database)
    await database.run(work)
