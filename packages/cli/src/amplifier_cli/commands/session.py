"""`amplifier session`: the group; each command is imported when it is used."""

from __future__ import annotations

import click

from amplifier_cli.lazy_group import LazyCommand, LazyGroup

_HERE = "amplifier_cli.commands.session"
_LOOK = "Look"
_BRANCH = "Branch"
_PROVE = "Prove"
_CLEAN = "Clean up"

_TABLE = {
    "list": LazyCommand(f"{_HERE}_show:list_sessions", "List sessions, newest first.", _LOOK),
    "show": LazyCommand(f"{_HERE}_show:show", "Show what happened in a session.", _LOOK),
    "watch": LazyCommand(f"{_HERE}_show:watch", "Follow a session as it is written.", _LOOK),
    "export": LazyCommand(f"{_HERE}_show:export", "Write a session to one file.", _LOOK),
    "fork": LazyCommand(f"{_HERE}_fork:fork", "Continue from any point, in a copy.", _BRANCH),
    "rewind": LazyCommand(
        f"{_HERE}_fork:rewind", "Take back turns: the conversation, its files, or both.", _BRANCH
    ),
    "diff": LazyCommand(f"{_HERE}_fork:diff", "Show where two sessions differ.", _BRANCH),
    "replay": LazyCommand(
        f"{_HERE}_replay:replay", "Run a session again offline, and compare.", _PROVE
    ),
    "to-test": LazyCommand(
        f"{_HERE}_replay:to_test", "Write a test from a session; it needs no network.", _PROVE
    ),
    "delete": LazyCommand(f"{_HERE}_delete:delete", "Delete a session.", _CLEAN),
    "prune": LazyCommand(f"{_HERE}_delete:prune", "Delete sessions that are old or large.", _CLEAN),
    "scrub": LazyCommand(f"{_HERE}_delete:scrub", "Remove secrets from a session.", _CLEAN),
    "migrate": LazyCommand(
        f"{_HERE}_delete:migrate", "Convert sessions of an older format.", _CLEAN
    ),
}


@click.command(cls=LazyGroup, table=_TABLE)
def session() -> None:
    """List, show, fork, replay and rewind sessions."""
