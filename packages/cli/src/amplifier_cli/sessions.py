"""The sessions of this machine, as commands name and show them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.terminal import notice
from amplifier_foundation import paths
from amplifier_foundation.store import SessionNotFoundError, SessionStore

if TYPE_CHECKING:
    from amplifier_foundation.preparing import Wishes
    from amplifier_journal.backends import SessionBackend
    from amplifier_journal.log import FollowedLog

__all__ = [
    "DURABLE",
    "SESSION",
    "children_of",
    "durable_sessions",
    "find_session",
    "read_session",
    "store",
    "with_own_bundle",
]

SESSION = click.argument("session_id", metavar="SESSION", default="last")

F = TypeVar("F", bound=Callable[..., Any])
_TENANT = "amplifier.tenant"
_DATABASE = "amplifier.database"


def _remember(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta[{"tenant": _TENANT, "database": _DATABASE}[str(option.name)]] = value


def DURABLE(command: F) -> F:
    """Let a command take a durable session: one of a tenant, in a database."""
    command = click.option(
        "--database",
        metavar="URL",
        expose_value=False,
        callback=_remember,
        envvar="AMPLIFIER_DATABASE_URL",
        help="Where durable sessions are; else runtime.sqlite in your folder.",
    )(command)
    return click.option(
        "--tenant",
        metavar="NAME",
        expose_value=False,
        callback=_remember,
        help="Take SESSION from the durable sessions of this tenant.",
    )(command)


def durable_sessions() -> SessionBackend | None:
    """Return the durable sessions that the command was asked for; None means those in files."""
    given = click.get_current_context().meta
    if given.get(_TENANT) is None:
        return None
    from amplifier_journal.backends import find_backend  # noqa: PLC0415 - most sessions are files

    return find_backend("durable", url=given.get(_DATABASE), tenant=given[_TENANT])


def store() -> SessionStore:
    """Return the store of the person's own folder."""
    return SessionStore(paths.home())


def find_session(text: str) -> str:
    """Return the id that an id, the beginning of one, or `last` stands for.

    `last` is the last session of this folder that did open; without any, the last of all.
    """
    sessions = store()
    if text != "last":
        return sessions.find(text)
    try:
        return sessions.find(text, Path.cwd())
    except SessionNotFoundError:
        return sessions.find(text)


def read_session(text: str) -> FollowedLog:
    """Return a reader of the session that `text` stands for."""
    durable = durable_sessions()
    if durable is not None:
        return durable.read(text)
    return store().read(find_session(text))


def with_own_bundle(wishes: Wishes, session_id: str) -> Wishes:
    """Return the wishes with the bundle that a session was opened with, unless they name one.

    Raises:
        CommandError: the bundle is a file of another folder, whose trust is not asked for here.
    """
    metadata = store().read(session_id).metadata
    bundle = metadata.get("bundle")
    project = Path(metadata.get("project") or Path.cwd())
    if wishes.bundle is not None or not bundle:
        return wishes
    is_elsewhere = project.resolve() != Path.cwd().resolve()
    if is_elsewhere and Path(bundle).is_relative_to(project.resolve()):
        raise CommandError(
            f"The session's bundle `{bundle}` is not used from here.",
            why=f"Whether it may act is decided in `{project}`.",
            fix=f"cd {project}",
        )
    from dataclasses import replace  # noqa: PLC0415 - whoever has wishes has it loaded

    return replace(wishes, bundle=bundle)


def children_of(reader: FollowedLog) -> list[FollowedLog]:
    """Return readers of every session that a session started, and those that they started."""
    sessions = durable_sessions() or store()
    found: list[FollowedLog] = []
    seen = set[str]()
    open_ends = [reader]
    while open_ends:
        for record in open_ends.pop().records():
            if record.kind != "child" or record.data["session_id"] in seen:
                continue
            seen.add(record.data["session_id"])
            try:
                child = sessions.read(str(record.data["session_id"]))
            except SessionNotFoundError:
                notice(f"the session {record.data['session_id']} is gone", level="warning")
                continue
            found.append(child)
            open_ends.append(child)
    return found
