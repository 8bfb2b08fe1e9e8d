"""The entrance: finds the command by its name, runs it, and returns how it ended."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn

import click

from amplifier_cli import __version__
from amplifier_cli.failures import exit_code_of, report
from amplifier_cli.lazy_group import LazyCommand, LazyGroup
from amplifier_cli.output import guard_streams

__all__ = ["COMMANDS", "amplifier", "main"]

_OBJECTS_BEFORE_COLLECTION = 50_000
_TALK = "Talk"
_LOOK = "Look back"
_BUILD = "Build"
_SET_UP = "Set up"
_HERE = "amplifier_cli.commands"

COMMANDS = {
    "run": LazyCommand(f"{_HERE}.run:run", "Ask once and print the answer.", _TALK),
    "chat": LazyCommand("amplifier_cli.chat.command:chat", "Talk in the terminal.", _TALK),
    "continue": LazyCommand(
        f"{_HERE}.continuing:continue_", "Go on with the last session of this folder.", _TALK
    ),
    "session": LazyCommand(
        f"{_HERE}.session:session", "List, show, fork, replay and rewind sessions.", _LOOK
    ),
    "explain": LazyCommand(
        f"{_HERE}.explain:explain", "Show what was sent to the model, and who added it.", _LOOK
    ),
    "top": LazyCommand(f"{_HERE}.top:top", "Show time, tokens and money by module.", _LOOK),
    "trace": LazyCommand(f"{_HERE}.trace:trace", "Draw a session as a waterfall.", _LOOK),
    "module": LazyCommand(f"{_HERE}.module:module", "Make, check, test and pin modules.", _BUILD),
    "bundle": LazyCommand(f"{_HERE}.bundle:bundle", "Look at bundles and check them.", _BUILD),
    "provider": LazyCommand(
        f"{_HERE}.provider:provider", "Look at providers, try them, list their models.", _BUILD
    ),
    "tool": LazyCommand(f"{_HERE}.tool:tool", "Look at tools, and call one yourself.", _BUILD),
    "init": LazyCommand(
        f"{_HERE}.init:init", "Choose a provider: finds keys and local servers.", _SET_UP
    ),
    "doctor": LazyCommand(
        f"{_HERE}.doctor:doctor", "Find what is wrong here, with the fix for each.", _SET_UP
    ),
    "trust": LazyCommand(
        f"{_HERE}.trust:trust", "Decide whether a project folder may act.", _SET_UP
    ),
    "completion": LazyCommand(
        f"{_HERE}.completion:completion", "Print the completion script of a shell.", _SET_UP
    ),
}


@click.command(
    cls=LazyGroup,
    table=COMMANDS,
    extras=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Start with: amplifier run "what is in this folder?"',
)
@click.version_option(__version__, message="amplifier %(version)s")
def amplifier() -> None:
    """Agents from your terminal: nothing lost, nothing overspent, nothing hidden."""


def main() -> NoReturn:
    """Run the command line and end the process with the exit code of what happened."""
    # Imports make objects by the hundred thousand and no garbage; looking for it costs a tenth.
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    guard_streams()
    try:
        outcome = amplifier.main(
            prog_name="amplifier",
            standalone_mode=False,
            color=False if os.environ.get("NO_COLOR") else None,
        )
        # Whatever is still in the buffer may meet a closed pipe; here that can be told.
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - told to the person, with its traceback if unknown
        report(error)
        sys.exit(exit_code_of(error))
    # The process ends: nobody needs the memory that a last look for garbage would give back.
    gc.freeze()
    sys.exit(outcome if isinstance(outcome, int) else 0)


def _forget_output() -> None:
    """Let the interpreter flush into nothing: the reader of a pipe has left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
