"""The command line: find the command by its name, run it, and exit with its code."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn

import click

from amplifier_cli import __version__
from amplifier_cli.failures import exit_code_of, report, show_tracebacks
from amplifier_cli.lazy_group import LazyCommand, LazyGroup
from amplifier_cli.output import guard_streams

__all__ = ["COMMANDS", "EXTRAS", "amplifier", "main"]

_OBJECTS_BEFORE_COLLECTION = 50_000
_TALK = "Run"
_LOOK = "Inspect"
_BUILD = "Extend"
_SET_UP = "Set up"
_DURABLE = "Durable sessions"
_HERE = "amplifier_cli.commands"

# The summaries repeat the first lines of the help texts, so that the list imports no command; a
# test compares them.
COMMANDS = {
    "run": LazyCommand(f"{_HERE}.run:run", "Ask once and print the answer.", _TALK),
    "chat": LazyCommand("amplifier_cli.chat.command:chat", "Chat in the terminal.", _TALK),
    "continue": LazyCommand(
        f"{_HERE}.session_continue:continue_", "Continue the last session in this folder.", _TALK
    ),
    "session": LazyCommand(
        f"{_HERE}.session:session", "List, show, fork, replay and rewind sessions.", _LOOK
    ),
    "explain": LazyCommand(
        f"{_HERE}.explain:explain", "Show what was sent to the model, and who added it.", _LOOK
    ),
    "top": LazyCommand(f"{_HERE}.top:top", "Show time, tokens and money by module.", _LOOK),
    "trace": LazyCommand(f"{_HERE}.trace:trace", "Draw a session as a waterfall.", _LOOK),
    "module": LazyCommand(f"{_HERE}.module:module", "Create, check, test and pin modules.", _BUILD),
    "bundle": LazyCommand(
        f"{_HERE}.bundle:bundle", "List, show, check and choose bundles.", _BUILD
    ),
    "provider": LazyCommand(
        f"{_HERE}.provider:provider", "List and test providers, and list their models.", _BUILD
    ),
    "tool": LazyCommand(f"{_HERE}.tool:tool", "List tools, and call one yourself.", _BUILD),
    "init": LazyCommand(f"{_HERE}.init:init", "Choose a provider, and store its key.", _SET_UP),
    "doctor": LazyCommand(
        f"{_HERE}.doctor:doctor",
        "Check the installation, and show a fix for each problem.",
        _SET_UP,
    ),
    "trust": LazyCommand(
        f"{_HERE}.trust:trust",
        "Allow or revoke a repository's settings, instructions and modules.",
        _SET_UP,
    ),
    "config": LazyCommand(f"{_HERE}.config:config", "Show and change settings.", _SET_UP),
    "completion": LazyCommand(
        f"{_HERE}.completion:completion", "Print the completion script of a shell.", _SET_UP
    ),
    "help": LazyCommand(f"{_HERE}.help:help_", "Show the help of a command.", _SET_UP),
}
# Listed only where amplifier-runtime is installed.
EXTRAS = {
    "worker": LazyCommand(
        "amplifier_runtime.commands.worker:worker",
        "Run durable turns until SIGTERM or Ctrl-C, then hand them over.",
        _DURABLE,
    ),
    "runtime": LazyCommand(
        "amplifier_runtime.commands.runtime:runtime",
        "Manage the database and the workers of durable sessions.",
        _DURABLE,
    ),
}


@click.command(
    cls=LazyGroup,
    table=COMMANDS,
    extras=EXTRAS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Start with: amplifier run "what is in this folder?"',
)
@click.option(
    "-C",
    "--directory",
    type=click.Path(exists=True, file_okay=False),
    metavar="FOLDER",
    help="Work in this folder.",
)
@click.option("--no-color", is_flag=True, help="Print without colours, as with NO_COLOR=1.")
@click.option("--verbose", is_flag=True, help="Print log messages, and where an error was raised.")
@click.version_option(__version__, message="amplifier %(version)s")
@click.pass_context
def amplifier(
    context: click.Context, directory: str | None, no_color: bool, verbose: bool
) -> int | None:
    """An auditable coding agent for your terminal. Without a command: chat."""
    if directory is not None:
        os.chdir(directory)
    if no_color:
        os.environ["NO_COLOR"] = "1"
    if verbose:
        import logging  # noqa: PLC0415 - costs a tenth of the start of `--version`

        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
        show_tracebacks()
    if context.invoked_subcommand is not None:
        return None
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise click.exceptions.NoArgsIsHelpError(context)
    return context.invoke(COMMANDS["chat"].load())


def main() -> NoReturn:
    """Run the command line and end the process with the exit code of what happened."""
    # Imports create objects by the hundred thousand and no garbage; collecting meanwhile costs a
    # tenth of the start.
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    # Before anything prints: modules, loggers and tracebacks show text from untrusted folders.
    guard_streams()
    try:
        outcome = amplifier.main(prog_name="amplifier", standalone_mode=False)
        # The buffer may be flushed into a closed pipe. Here that can be handled; at interpreter
        # exit it would print a traceback.
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - reported, with its traceback if unexpected
        report(error)
        sys.exit(exit_code_of(error))
    # Skip the collection at interpreter exit: the process ends and frees its memory anyway.
    gc.freeze()
    sys.exit(outcome if isinstance(outcome, int) else 0)


def _forget_output() -> None:
    """Redirect stdout to /dev/null, so that the flush at exit does not fail on a closed pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
