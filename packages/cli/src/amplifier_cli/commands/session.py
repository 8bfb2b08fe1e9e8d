"""`amplifier session`: the group; each of its commands is loaded when it is used."""

from __future__ import annotations

import click

from amplifier_cli.lazy_group import LazyCommand, LazyGroup

_HERE = "amplifier_cli.commands.session"
_LOOK = "Look"
_BRANCH = "Branch"
_PROVE = "Prove"
_CLEAN = "Clean up"

_TABLE = {
    "list": LazyCommand(f"{_HERE}_looking:list_sessions", "List sessions, newest first.", _LOOK),
    "show": LazyCommand(f"{_HERE}_looking:show", "Show what happened in a session.", _LOOK),
    "watch": LazyCommand(f"{_HERE}_looking:watch", "Follow a session as it is written.", _LOOK),
    "export": LazyCommand(f"{_HERE}_looking:export", "Write a session to one file.", _LOOK),
    "fork": LazyCommand(f"{_HERE}_branching:fork", "Go on from any point, in a copy.", _BRANCH),
    "rewind": LazyCommand(
        f"{_HERE}_branching:rewind", "Set conversation, files or both back.", _BRANCH
    ),
    "diff": LazyCommand(f"{_HERE}_branching:diff", "Show where two sessions differ.", _BRANCH),
    "replay": LazyCommand(
        f"{_HERE}_proving:replay", "Run a session again offline, and compare.", _PROVE
    ),
    "to-test": LazyCommand(
        f"{_HERE}_proving:to_test", "Make a test of a session that needs no network.", _PROVE
    ),
    "delete": LazyCommand(f"{_HERE}_cleaning:delete", "Delete a session.", _CLEAN),
    "scrub": LazyCommand(f"{_HERE}_cleaning:scrub", "Take secrets out of a session.", _CLEAN),
}


@click.command(cls=LazyGroup, table=_TABLE)
def session() -> None:
    """List, show, fork, replay and rewind sessions."""
