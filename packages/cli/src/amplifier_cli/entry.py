"""The entry point of the command: imports the rest, or explains why it cannot."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

__all__ = ["main"]

_AGAIN = "python -m pip install -r requirements.txt -c constraints.txt"


def main() -> NoReturn:
    """Run the command line; refuse to start on packages of other versions than it was built for."""
    try:
        # Checks the installed versions. pip can replace our kernel with another project's of the
        # same name; without this check the command would fail later, far from the cause.
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
    # The text contains versions that other packages declare, which may have control characters.
    # `output` cannot be used: it imports packages that may be the broken ones.
    lines = (_printable(text) for text in (what, why, fix))
    labels = ("error", "why", "next")
    return "".join(f"{label:<7}{line}\n" for label, line in zip(labels, lines, strict=True))


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
