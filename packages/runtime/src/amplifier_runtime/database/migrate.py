"""Migrations of the tables: forward only, in order, all in one transaction."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from importlib.resources import files
from typing import NamedTuple

from amplifier_runtime.database.database import (
    SCHEMA,
    Connection,
    Database,
    all_of,
    execute,
    one_of,
)
from amplifier_runtime.errors import SchemaError

__all__ = ["Migration", "applied", "check_schema", "known_migrations", "migrate", "pending"]

logger = logging.getLogger(__name__)

# A migration that the code of the version before does not work with begins with this line.
BREAKING = "-- breaks older workers"
# The key of the advisory lock; any number will do that all migrating processes share.
_LOCK = 0x616D706C


class Migration(NamedTuple):
    """One numbered file."""

    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        """The digest that detects a migration that was changed after it was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def is_breaking(self) -> bool:
        """Whether workers of the version before have to be stopped first."""
        return self.sql.startswith(BREAKING)

    def statements(self) -> list[str]:
        """Return the statements without the comments between them."""
        lines = [line for line in self.sql.splitlines() if not line.startswith("--")]
        return [each.strip() for each in "\n".join(lines).split(";") if each.strip()]


def known_migrations() -> list[Migration]:
    """Return the migrations that this version has, in order."""
    found = [
        each for each in files("amplifier_runtime.migrations").iterdir() if each.name[0].isdigit()
    ]
    named = sorted((each.name, each.read_text(encoding="utf-8")) for each in found)
    return [Migration(int(name[:4]), name, sql) for name, sql in named]


async def pending(database: Database) -> list[Migration]:
    """Return what `migrate` would apply; changes nothing."""
    done = await applied(database)
    return [each for each in known_migrations() if each.number not in done]


async def applied(database: Database) -> dict[int, str]:
    """Return the digests of the applied migrations by their number."""

    def read(connection: Connection) -> dict[int, str]:
        if _has_table(connection, database):
            return _applied(connection)
        return {}

    return await database.run(read)


async def migrate(database: Database) -> list[Migration]:
    """Apply and return the pending migrations in one transaction, then update the engine's tables.

    Raises:
        SchemaError: a migration was changed after it was applied, or it breaks workers that run.
    """

    def work(connection: Connection) -> list[Migration]:
        _prepare(connection, database)
        done = _applied(connection)
        changed = [
            each.name
            for each in known_migrations()
            if done.get(each.number, each.digest) != each.digest
        ]
        if changed:
            raise SchemaError(f"Changed after they were applied: {', '.join(changed)}.")
        todo = [each for each in known_migrations() if each.number not in done]
        for each in todo:
            _apply(connection, each)
        return todo

    done = await database.run(work)
    from amplifier_runtime.database.engine import make_tables  # noqa: PLC0415 - clients that only read do not import DBOS

    # Not left to the workers: two of them may start at the same moment.
    await asyncio.to_thread(make_tables, database.url)
    return done


async def check_schema(database: Database) -> None:
    """Raise a SchemaError unless this code works with the tables as they are."""
    mine = {each.number: each for each in known_migrations()}
    there = await applied(database)
    missing = [each.name for number, each in mine.items() if number not in there]
    if missing:
        raise SchemaError(
            f"The database lacks {', '.join(missing)}. Run `amplifier runtime migrate` first.",
            fix="amplifier runtime migrate",
        )
    # Migrations of newer code are fine unless they are breaking: during a rolling deploy the
    # tables are migrated before the last old worker has left.
    if not set(there) - set(mine):
        return

    def breaking(connection: Connection) -> list[int]:
        rows = all_of(connection, "SELECT number FROM migrations WHERE breaking = 1")
        return [row["number"] for row in rows if row["number"] not in mine]

    broken = await database.run(breaking)
    if broken:
        raise SchemaError(
            f"The database has had migrations that this version cannot live with: {broken}. "
            "Start a newer worker."
        )


def _has_table(connection: Connection, database: Database) -> bool:
    if database.is_sqlite:
        sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"
        return one_of(connection, sql) is not None
    sql = "SELECT 1 FROM pg_tables WHERE schemaname = :schema AND tablename = 'migrations'"
    return one_of(connection, sql, schema=SCHEMA) is not None


def _prepare(connection: Connection, database: Database) -> None:
    """Lock out other migrations, and create the table of applied ones."""
    if not database.is_sqlite:
        one_of(connection, "SELECT pg_advisory_xact_lock(:key)", key=_LOCK)
        execute(connection, f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    execute(
        connection,
        "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, "
        "digest TEXT NOT NULL, breaking INTEGER NOT NULL, applied_at BIGINT NOT NULL)",
    )
    if database.is_sqlite:
        # Takes the write lock: `CREATE TABLE IF NOT EXISTS` of an existing table does not.
        execute(connection, "UPDATE migrations SET number = number")


def _applied(connection: Connection) -> dict[int, str]:
    rows = all_of(connection, "SELECT number, digest FROM migrations")
    return {row["number"]: row["digest"] for row in rows}


def _apply(connection: Connection, migration: Migration) -> None:
    if migration.is_breaking and migration.number > 1:
        _refuse_while_workers_run(connection, migration)
    for statement in migration.statements():
        execute(connection, statement)
    execute(
        connection,
        "INSERT INTO migrations VALUES (:number, :name, :digest, :breaking, now_ms())",
        number=migration.number,
        name=migration.name,
        digest=migration.digest,
        breaking=int(migration.is_breaking),
    )
    logger.info("migration applied name=%s", migration.name)


def _refuse_while_workers_run(connection: Connection, migration: Migration) -> None:
    if connection.dialect.name != "sqlite":
        # A worker that registers meanwhile waits here, and then sees that it is too old.
        execute(connection, "LOCK TABLE workers IN EXCLUSIVE MODE")
    sql = "SELECT worker_id FROM workers WHERE state IN ('alive', 'draining')"
    living = one_of(connection, sql)
    if living is not None:
        raise SchemaError(
            f"{migration.name} breaks workers that still run, such as `{living['worker_id']}`. "
            "Run `amplifier runtime drain` first.",
            fix="amplifier runtime drain",
        )
