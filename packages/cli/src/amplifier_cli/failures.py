"""How an error is reported: what happened, why, and the next command."""

from __future__ import annotations

import errno
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
    "show_tracebacks",
]

# Scripts depend on these numbers; `amplifier run --help` lists them.
GENERAL = 1
USAGE = 2
TRUST = 3
BUDGET = 4
PROVIDER = 5
CANCELLED = 130


# By the kernel's name of the error, the narrower class first: why it happened, and what to type.
_PROVIDER_FAULTS = {
    "AuthenticationError": ("The key was refused.", "amplifier init"),
    "NetworkError": ("The server is down, or its address is wrong.", "amplifier init"),
    "NotFoundError": ("The provider does not have this model.", "amplifier provider models"),
    "ContextLengthError": (
        "The window of this model is too small for the prompt, the instructions and the tools.",
        "amplifier provider models",
    ),
}
# Rights and space are the user's; other errors of the system are faults of ours.
_DISK_FAULTS = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT)
_ANY_PROVIDER_FAULT = ("", "amplifier provider test")


# Set once, by `--verbose`: one process runs one command.
_traceback_of_every_error = False


def show_tracebacks() -> None:
    """Print the traceback of every error from now on, not only of unexpected ones."""
    global _traceback_of_every_error
    _traceback_of_every_error = True


class CommandError(ExplainedError):
    """A command was given invalid input."""

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
    """Print the error to stderr, with its traceback if it is of an unexpected type."""
    if isinstance(error, click.Abort):
        if sys.stderr.isatty():
            # The terminal has echoed ^C at the end of the current line.
            say(err=True)
        _line("end", "Cancelled.", "yellow")
        return
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    what, why, fix = described(error)
    if _traceback_of_every_error or not _is_foreseen(error):
        from traceback import format_exception  # noqa: PLC0415 - only for unexpected errors

        say("".join(format_exception(error)), err=True, nl=False)
    _line("error", what, "red")
    if why:
        _line("why", why, "yellow")
    if fix:
        _line("next", fix, "cyan")


def described(error: Exception) -> tuple[str, str, str]:
    """Return what happened, why, and the next command, without secrets; unknown parts are empty."""
    if not isinstance(error, click.ClickException):
        # Vendors repeat what they were sent, keys included, in their error messages.
        from amplifier_foundation.scrub import (  # noqa: PLC0415 - only after an error
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
            # Raised by our own providers, with the next step.
            return what, getattr(error, "why", ""), getattr(error, "fix", "")
        return f"The provider failed: {error}", *_provider_fault(error)
    if _is_of_kernel(error, "errors", "AmplifierError"):
        return str(error), "", "amplifier doctor"
    if isinstance(error, OSError) and error.errno in _DISK_FAULTS:
        return f"`{error.filename}` cannot be used.", f"{error.strerror}.", "amplifier doctor"
    what = f"{type(error).__name__}: {error}"
    return what, "Nobody foresaw this; it is a fault.", "amplifier doctor"


def _provider_fault(error: Exception) -> tuple[str, str]:
    """Return why a provider failed, and the next command."""
    for name, explained in _PROVIDER_FAULTS.items():
        if _is_of_kernel(error, "llm_errors", name):
            return explained
    return _ANY_PROVIDER_FAULT


def _is_foreseen(error: Exception) -> bool:
    if isinstance(error, click.ClickException | ExplainedError):
        return True
    if isinstance(error, OSError) and error.errno in _DISK_FAULTS:
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
    """Whether it is an error of the kernel."""
    # Importing the kernel costs more than most commands; if it is not loaded, it raised nothing.
    loaded = sys.modules.get(f"amplifier_core.{module}")
    return loaded is not None and isinstance(error, getattr(loaded, name))
