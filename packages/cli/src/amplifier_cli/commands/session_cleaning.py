"""`amplifier session delete|scrub`: what is not to stay."""

from __future__ import annotations

import sys

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say
from amplifier_cli.render.plain import counted
from amplifier_cli.sessions import find_session, store
from amplifier_cli.terminal import confirm, fitted, is_terminal, notice, working
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
        _confirm(f"Delete {short_id(session_id)} ({title}) for good?", yes)
        store().delete(session_id)
        notice(f"{session_id} is deleted.")


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not is_terminal():
        raise CommandError("Nothing was done.", why="There is nobody to ask.", fix="add --yes")
    confirm(question)


@click.command()
@_SESSIONS
@click.option("--stdin", "from_stdin", is_flag=True, help="Further secrets, one a line.")
@click.option("--check", is_flag=True, help="Only count them; exit code 1 when there are any.")
@_YES
def scrub(session_ids: tuple[str, ...], from_stdin: bool, check: bool, yes: bool) -> int:
    """Take secrets out of a session.

    Known keys and everything that looks like a secret are blanked: in the log, in large texts and
    in every other file of the session's folder. Its id stays. What modules wrote elsewhere is not
    seen.
    """
    from amplifier_foundation.scrubbing import (  # noqa: PLC0415 - the patterns
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
            _confirm("Blank them for good?", yes)
            with working(f"writing {short_id(session_id)} anew"):
                done = scrub_session(store(), session_id, further)
            files = f", and in {', '.join(done.files)}" if done.files else ""
            notice(f"{short_id(session_id)}: blanked in {counted(done.records, 'record')}{files}")
            for damaged in done.unsure:
                line = f"its large texts stay: session {damaged} is damaged and may need them"
                notice(line, level="warning")
    return 1 if check and any_found else 0
