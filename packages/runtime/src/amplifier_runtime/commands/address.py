"""Which database a command works on, and the messages for its failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from amplifier_foundation.errors import FoundationError
from amplifier_runtime.database.database import Database
from amplifier_runtime.errors import (
    DurableError,
    ExposedDatabaseError,
    NoWorkerError,
    SchemaError,
    SecretsError,
)
from amplifier_sandbox.home import amplifier_home

__all__ = ["database_option", "default_url", "failure_of", "run_on", "shown"]

T = TypeVar("T")

URL_VARIABLE = "AMPLIFIER_DATABASE_URL"
# Somebody waits at the terminal: not the minute that a worker retries for.
_PATIENCE_SECONDS = 5.0


def default_url() -> str:
    """Return the database that is used when none is named."""
    return f"sqlite:///{amplifier_home() / 'runtime.sqlite'}"


database_option = click.option(
    "--database",
    "url",
    metavar="URL",
    envvar=URL_VARIABLE,
    default=default_url,
    show_default="runtime.sqlite in your folder",
    show_envvar=True,
    help="sqlite:///path or postgresql://...",
)


def shown(url: str) -> str:
    """Return a URL without its password, for messages."""
    return sa.make_url(url).render_as_string(hide_password=True)


def run_on(url: str, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run `work` on a database; errors are raised as messages with a fix."""

    async def whole() -> T:
        database = Database(url, connections=2, patience_seconds=_PATIENCE_SECONDS)
        try:
            return await work(database)
        finally:
            database.close()

    try:
        return asyncio.run(whole())
    except (DurableError, SQLAlchemyError) as error:
        raise failure_of(error, url) from error


def failure_of(error: DurableError | SQLAlchemyError, url: str) -> FoundationError:
    """Return the message for the user that replaces an error of the runtime or the database."""
    if isinstance(error, SchemaError | SecretsError):
        return FoundationError(str(error), fix=error.fix)
    if isinstance(error, ExposedDatabaseError):
        why = "Plans, prompts and answers are in it."
        return FoundationError(str(error), why=why, fix=error.fix)
    if isinstance(error, NoWorkerError):
        return FoundationError(str(error), fix="amplifier worker")
    if isinstance(error, DurableError):
        return FoundationError(str(error), fix="amplifier runtime status")
    if isinstance(error, ArgumentError):
        return FoundationError("That is no URL of a database.", fix="amplifier worker --help")
    why = str(getattr(error, "orig", None) or error)
    return FoundationError(f"The database {shown(url)} does not work.", why=why.strip())
