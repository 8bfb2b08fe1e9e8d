"""A session that another process has open: watch it, take it over, or continue in a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import click

from amplifier_cli.failures import CommandError
from amplifier_cli.output import say, styled
from amplifier_cli.terminal import choose_from, is_terminal
from amplifier_foundation.store.errors import SessionHeldError

__all__ = ["Answer", "choose", "when_held_options"]

Answer = Literal["watch", "take-over", "fork"]
F = TypeVar("F", bound=Callable[..., Any])

_MEANING: dict[Answer, str] = {
    "watch": "watch while the other process continues",
    "take-over": "continue here; the other process can write nothing more",
    "fork": "continue in a copy, and leave this one to the other process",
}


def when_held_options(command: F) -> F:
    """Add the three flags that answer the question in advance."""
    for answer, meaning in reversed(_MEANING.items()):
        about = f"If it is open elsewhere: {meaning}."
        option = click.option(f"--{answer}", "when_held", flag_value=answer, help=about)
        command = option(command)
    return command


def choose(error: SessionHeldError, given: Answer | None) -> Answer:
    """Return the given answer, else ask the user.

    Raises:
        CommandError: no answer was given and there is no terminal to ask at.
    """
    if given is not None:
        return given
    if not is_terminal():
        raise CommandError(
            error.message,
            why="One process at a time writes a session, and there is nobody to ask.",
            fix="the same command with --watch, --take-over or --fork",
        ) from error
    say(error.message, err=True)
    for answer, meaning in _MEANING.items():
        say(f"  {styled(answer.ljust(12), bold=True)} {meaning}", err=True)
    return choose_from("What now", list(_MEANING), default="watch")
