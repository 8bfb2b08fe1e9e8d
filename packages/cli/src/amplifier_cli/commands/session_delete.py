"""`amplifier session delete|prune|scrub|migrate`: delete sessions, clean and convert them."""

from __future__ import annotations

import sys

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say
from amplifier_cli.render.plain import counted, size
from amplifier_cli.sessions import find_session, store
from amplifier_cli.terminal import (
    confirm,
    fitted,
    is_terminal,
    notice,
    print_columns,
    working,
)
from amplifier_foundation.short_ids import short_id

_SESSIONS = click.argument("session_ids", metavar="SESSION...", nargs=-1, required=True)
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.command()
@_SESSIONS
@_YES
def delete(session_ids: tuple[str, ...], yes: bool) -> None:
    """Delete a session."""
    for session_id in map(find_session, session_ids):
        title = fitted(str(store().read(session_id).metadata.get("title") or ""), 60)
        again = f"amplifier session delete {short_id(session_id)} --yes"
        _confirm(f"Delete {short_id(session_id)} ({title}) for good?", yes, again)
        store().delete(session_id)
        notice(f"{session_id} is deleted.")


def _confirm(question: str, yes: bool, again: str) -> None:
    """Ask the user; without a terminal, `again` is the command that does not ask."""
    if yes:
        return
    if not is_terminal():
        raise CommandError("Nothing was done.", why="There is nobody to ask.", fix=again)
    confirm(question)


@click.command()
@click.option(
    "--older-than", "days", type=click.FloatRange(min=0), help="Not used for so many days."
)
@click.option(
    "--larger-than",
    "megabytes",
    type=click.FloatRange(min=0),
    help="The oldest, until the rest takes so many megabytes.",
)
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Never one of so many that were used last.",
)
@click.option("--dry-run", is_flag=True, help="Only list them.")
@_YES
def prune(days: float | None, megabytes: float | None, keep: int, dry_run: bool, yes: bool) -> None:
    """Delete sessions that are old or large.

    Sessions of all folders count. One that a process writes is kept. Nothing is deleted by itself:
    without this command, every session stays.
    """
    if days is None and megabytes is None:
        raise CommandError(
            "There is no rule by which to delete.", fix="amplifier session prune --older-than 90"
        )
    most = None if megabytes is None else int(megabytes * 1_000_000)
    plan = store().retention(max_age_days=days, max_bytes=most, keep=keep)
    for kept in plan.kept:
        notice(f"{short_id(kept.session_id)} stays. {kept.why}")
    print_columns(
        [(short_id(each.session_id), size(each.bytes), each.why) for each in plan.sessions]
    )
    if not plan.sessions:
        notice("There is nothing to delete.")
        return
    if dry_run:
        return
    count = counted(len(plan.sessions), "session")
    _confirm(f"Delete {count} for good?", yes, _again(days, megabytes, keep))
    done = plan.apply()
    for kept in done.kept:
        notice(f"{short_id(kept.session_id)} stays. {kept.why}")
    freed = size(done.bytes + done.blobs.bytes)
    notice(f"{counted(len(done.sessions), 'session')} deleted, {freed} freed.")


def _again(days: float | None, megabytes: float | None, keep: int) -> str:
    rules = [("--older-than", days), ("--larger-than", megabytes), ("--keep", keep)]
    given = [f"{name} {value:g}" for name, value in rules if value is not None]
    return " ".join(["amplifier session prune", *given, "--yes"])


@click.command()
@click.option("--dry-run", is_flag=True, help="Only count what can be converted.")
def migrate(dry_run: bool) -> int:
    """Convert sessions of an older format.

    The old files are kept beside the new ones.
    """
    done = store().migrate(dry_run=dry_run)
    for each in done.sessions:
        if each.problem:
            notice(f"{short_id(each.session_id)} stays as it is: {each.problem}", level="warning")
    if done.sessions:
        say(f"{counted(len(done.sessions), 'session')} of an older format: {done} records")
    else:
        notice("There is no session of an older format.")
    return 1 if any(each.problem for each in done.sessions) else 0


@click.command()
@_SESSIONS
@click.option("--stdin", "from_stdin", is_flag=True, help="Further secrets, one a line.")
@click.option("--check", is_flag=True, help="Only count them; exit code 1 when there are any.")
@_YES
def scrub(session_ids: tuple[str, ...], from_stdin: bool, check: bool, yes: bool) -> int:
    """Remove secrets from a session.

    Known keys and everything that looks like a secret are blanked: in the log, in large texts and
    in every other file of the session's folder. Its id stays. What modules wrote elsewhere is not
    seen.
    """
    from amplifier_foundation.scrub import (  # noqa: PLC0415 - the patterns
        find_secrets,
        scrub_session,
    )

    further = sys.stdin.read().split() if from_stdin else []
    any_found = False
    for session_id in map(find_session, session_ids):
        with working(f"looking through {short_id(session_id)}"):
            found = find_secrets(store(), session_id, further)
        if not found:
            notice(f"{short_id(session_id)}: no secret")
            continue
        any_found = True
        told = ", ".join(f"{number} {kind}" for kind, number in found.most_common())
        say(f"{short_id(session_id)}: {told}")
        if not check:
            again = f"amplifier session scrub {short_id(session_id)} --yes"
            _confirm("Blank them for good?", yes, again)
            with working(f"rewriting {short_id(session_id)}"):
                done = scrub_session(store(), session_id, further)
            files = f", and in {', '.join(done.files)}" if done.files else ""
            notice(f"{short_id(session_id)}: blanked in {counted(done.records, 'record')}{files}")
            for damaged in done.unsure:
                line = f"its large texts stay: session {damaged} is damaged and may need them"
                notice(line, level="warning")
    return 1 if check and any_found else 0
