"""Bringing the tables to the shape this code needs: forward, in order, each change whole."""

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

# A migration that code of the version before cannot live with begins with this line.
BREAKING = "-- breaks older workers"
# Anything that is the same for everyone who migrates.
_LOCK = 0x616D706C


class Migration(NamedTuple):
    """One numbered file."""

    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        """What tells this text from another one under the same number."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def is_breaking(self) -> bool:
        """Whether workers of the version before must be gone."""
        return self.sql.startswith(BREAKING)

    def statements(self) -> list[str]:
        """Return the statements without the comments between them."""
        lines = [line for line in self.sql.splitlines() if not line.startswith("--")]
        return [each.strip() for each in "\n".join(lines).split(";") if each.strip()]


def known_migrations() -> list[Migration]:
    """Return the migrations that come with this code, in order."""
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
    """Return the digests of the migrations that the database has had."""

    def read(connection: Connection) -> dict[int, str]:
        if _has_table(connection, database):
            return _applied(connection)
        return {}

    return await database.run(read)


async def migrate(database: Database) -> list[Migration]:
    """Apply what is pending, in one transaction, and return it; then see to the engine's tables.

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
    from amplifier_runtime.database.engine import make_tables  # noqa: PLC0415 - whoever only reads needs none

    # Not left to the first worker: two may start at the same moment.
    await asyncio.to_thread(make_tables, database.url)
    return done


async def check_schema(database: Database) -> None:
    """Raise a SchemaError unless this code and the tables fit each other."""
    mine = {each.number: each for each in known_migrations()}
    there = await applied(database)
    missing = [each.name for number, each in mine.items() if number not in there]
    if missing:
        raise SchemaError(
            f"The database lacks {', '.join(missing)}. Run `amplifier runtime migrate` first.",
            fix="amplifier runtime migrate",
        )
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
    """Let nobody else migrate at the same time, and make the table that remembers."""
    if not database.is_sqlite:
        one_of(connection, "SELECT pg_advisory_xact_lock(:key)", key=_LOCK)
        execute(connection, f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    execute(
        connection,
        "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, "
        "digest TEXT NOT NULL, breaking INTEGER NOT NULL, applied_at BIGINT NOT NULL)",
    )
    if database.is_sqlite:
        # Only a write takes the lock; creating a table that is there is none.
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
        # Whoever starts now waits, and then finds out that it is too old.
        execute(connection, "LOCK TABLE workers IN EXCLUSIVE MODE")
    sql = "SELECT worker_id FROM workers WHERE state IN ('alive', 'draining')"
    living = one_of(connection, sql)
    if living is not None:
        raise SchemaError(
            f"{migration.name} breaks workers that still run, such as `{living['worker_id']}`. "
            "Run `amplifier runtime drain` first.",
            fix="amplifier runtime drain",
        )
