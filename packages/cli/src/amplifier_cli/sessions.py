"""Find and read the sessions that commands take as an argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.terminal import notice
from amplifier_foundation import paths
from amplifier_foundation.store import SessionNotFoundError, SessionStore
from amplifier_sandbox.project_folder import project_root

if TYPE_CHECKING:
    from amplifier_foundation.prepare import SessionOptions
    from amplifier_journal.backends import SessionBackend
    from amplifier_journal.log import FollowedLog

__all__ = [
    "durable_options",
    "SESSION",
    "children_of",
    "durable_sessions",
    "find_session",
    "read_session",
    "store",
    "with_own_bundle",
]

SESSION = click.argument("session_id", metavar="[SESSION]", default="last")

F = TypeVar("F", bound=Callable[..., Any])
_TENANT = "amplifier.tenant"
_DATABASE = "amplifier.database"


def _remember(context: click.Context, option: click.Parameter, value: str | None) -> None:
    context.meta[{"tenant": _TENANT, "database": _DATABASE}[str(option.name)]] = value


def durable_options(command: F) -> F:
    """Add the options that make a command read a tenant's durable session from a database."""
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
    """Return the backend of durable sessions if `--tenant` was given; None means files."""
    given = click.get_current_context().meta
    if given.get(_TENANT) is None:
        return None
    # Most sessions are files, which need none of this.
    from amplifier_foundation.installation import runtime_command  # noqa: PLC0415
    from amplifier_journal.backends import find_backend  # noqa: PLC0415
    from amplifier_journal.errors import NoBackendError  # noqa: PLC0415

    try:
        return find_backend("durable", url=given.get(_DATABASE), tenant=given[_TENANT])
    except NoBackendError as error:
        raise CommandError(
            "Durable sessions cannot be read here.",
            why="The package amplifier-runtime is not installed.",
            fix=runtime_command(),
        ) from error


def store() -> SessionStore:
    """Return the store in the user's folder."""
    return SessionStore(paths.home())


def find_session(text: str) -> str:
    """Return the id of the session given by an id, the beginning of one, or `last`.

    `last` is the last session of this folder that opened, never one of another folder: commands
    that delete or continue a session take it too.
    """
    if text != "last":
        return store().find(text)
    try:
        return store().find(text, project_root(Path.cwd()))
    except SessionNotFoundError as error:
        raise CommandError(
            "There is no session in this folder.", fix="amplifier session list --all"
        ) from error


def read_session(text: str) -> FollowedLog:
    """Return a reader of the session given by `text`."""
    durable = durable_sessions()
    if durable is not None:
        return durable.read(text)
    return store().read(find_session(text))


def with_own_bundle(options: SessionOptions, session_id: str) -> SessionOptions:
    """Return the options with the bundle that a session was opened with, unless they name one.

    Raises:
        CommandError: the bundle is a file of another folder, whose trust is not checked here.
    """
    metadata = store().read(session_id).metadata
    bundle = metadata.get("bundle")
    here = project_root(Path.cwd())
    project = Path(metadata.get("project") or here)
    if options.bundle is not None or not bundle:
        return options
    # Trust is decided per folder: resuming a session from another one must not bypass it.
    is_elsewhere = project.resolve() != here.resolve()
    if is_elsewhere and Path(bundle).is_relative_to(project.resolve()):
        raise CommandError(
            f"The session's bundle `{bundle}` is not used from here.",
            why=f"Whether it may act is decided in `{project}`.",
            fix=f"cd {project}",
        )
    from dataclasses import replace  # noqa: PLC0415 - loaded with the options

    return replace(options, bundle=bundle)


def children_of(reader: FollowedLog) -> list[FollowedLog]:
    """Return readers of all descendants of a session."""
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
