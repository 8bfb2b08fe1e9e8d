"""The entry point of the command: imports the rest, and says so when it cannot be imported."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

__all__ = ["main"]

_AGAIN = "python -m pip install -r requirements.txt -c constraints.txt"


def main() -> NoReturn:
    """Run the command line; refuse when the packages below it are not the ones it was made with."""
    try:
        # Fails when the kernel or the foundation is that of another project.
        import_module("amplifier_foundation.installation")
        from amplifier_cli.main import main as run_command  # noqa: PLC0415 - may fail, see above
    except ImportError as error:
        sys.stderr.write(_refusal(error))
        sys.exit(1)
    run_command()


def _refusal(error: ImportError) -> str:
    """Return three lines: what is wrong, why, and the command that repairs it.

    The error is not one of ours when another distribution replaced the foundation itself.
    """
    what = getattr(error, "message", "The packages of this command do not fit together.")
    why = getattr(error, "why", f"{error}. Install them again, in the clone of Amplifier.")
    fix = getattr(error, "fix", _AGAIN)
    # The text names versions that other packages state of themselves.
    lines = (_printable(text) for text in (what, why, fix))
    labels = ("error", "why", "next")
    return "".join(f"{label:<7}{line}\n" for label, line in zip(labels, lines, strict=True))


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
