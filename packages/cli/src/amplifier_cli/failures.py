"""How an error is told: what happened, why, and the next command."""

from __future__ import annotations

import sys

import click

from amplifier_cli.output import say, styled
from amplifier_kit.explained_error import ExplainedError

__all__ = [
    "BUDGET",
    "CANCELLED",
    "GENERAL",
    "TRUST",
    "CommandError",
    "described",
    "exit_code_of",
    "report",
]

GENERAL = 1
USAGE = 2
TRUST = 3
BUDGET = 4
PROVIDER = 5
CANCELLED = 130


class CommandError(ExplainedError):
    """A command was given something that it cannot work with."""

    exit_code = USAGE


def exit_code_of(error: Exception) -> int:
    """Return the exit code: 1 general, 2 usage, 3 trust, 4 budget, 5 provider, 130 cancelled."""
    if isinstance(error, click.Abort):
        return CANCELLED
    if isinstance(error, click.ClickException | ExplainedError):
        return error.exit_code
    if _is_of_kernel(error, "llm_errors", "LLMError"):
        return PROVIDER
    return GENERAL


def report(error: Exception) -> None:
    """Print the error to stderr; one that nobody foresaw comes with its traceback."""
    if isinstance(error, click.Abort):
        if sys.stderr.isatty():
            # The terminal has written ^C behind whatever stood there.
            say(err=True)
        _line("end", "Cancelled.", "yellow")
        return
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    what, why, fix = described(error)
    if not _is_foreseen(error):
        from traceback import format_exception  # noqa: PLC0415 - as rare as it can be

        say("".join(format_exception(error)), err=True, nl=False)
    _line("error", what, "red")
    if why:
        _line("why", why, "yellow")
    if fix:
        _line("next", fix, "cyan")


def described(error: Exception) -> tuple[str, str, str]:
    """Return what happened, why, and the next command, without secrets; the unknown is empty."""
    if not isinstance(error, click.ClickException):
        from amplifier_foundation.scrubbing import (  # noqa: PLC0415 - a start without errors is usual
            blank_known_secrets,
        )

        blank_known_secrets(error)
    if isinstance(error, ExplainedError):
        return error.message, error.why, error.fix
    if isinstance(error, click.ClickException):
        return error.format_message(), "", _help_of(error)
    if _is_of_kernel(error, "llm_errors", "LLMError"):
        what = getattr(error, "what", "")
        if what:
            # One of ours that knows the next step.
            return what, getattr(error, "why", ""), getattr(error, "fix", "")
        return f"The provider failed: {error}", repr(error), "amplifier provider test"
    if _is_of_kernel(error, "errors", "AmplifierError"):
        return str(error), "", "amplifier doctor"
    what = f"{type(error).__name__}: {error}"
    return what, "Nobody foresaw this; it is a fault.", "amplifier doctor"


def _is_foreseen(error: Exception) -> bool:
    if isinstance(error, click.ClickException | ExplainedError):
        return True
    kernel = (("llm_errors", "LLMError"), ("errors", "AmplifierError"))
    return any(_is_of_kernel(error, module, name) for module, name in kernel)


def _line(label: str, text: str, color: str) -> None:
    padded = text.replace("\n", "\n" + " " * 7)
    say(styled(label.ljust(7), fg=color, bold=True) + padded, err=True)


def _help_of(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError):
        context = error.ctx
    else:
        context = None
    if context is None:
        return ""
    return f"{context.command_path} --help"


def _is_of_kernel(error: Exception, module: str, name: str) -> bool:
    """Whether it is an error of the kernel, which is not imported to find out."""
    loaded = sys.modules.get(f"amplifier_core.{module}")
    return loaded is not None and isinstance(error, getattr(loaded, name))
