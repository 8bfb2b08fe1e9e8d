"""Stream the records of a session to stdout: the lines of its log, each as it is written."""

from __future__ import annotations

from amplifier_cli.failures import CommandError
from amplifier_cli.output import write_line
from amplifier_kit.explained_error import ExplainedError

__all__ = ["RecordStream", "refuse_option"]

_REFUSED = {
    "--json": (
        "Both write to stdout: one record a line, or one object at the end.",
        'amplifier run --events "what is in this folder?"',
    ),
    "--watch": (
        "It shows the turn of another process, and the records are those of a turn here.",
        "the same command with --take-over or --fork",
    ),
}


def refuse_option(option: str) -> CommandError:
    """Return the error for an option that makes no sense with `--events`."""
    why, fix = _REFUSED[option]
    return CommandError(f"`--events` cannot be used with `{option}`.", why=why, fix=fix)


class RecordStream:
    """Writes the lines of a log; a reader that leaves does not disturb the session."""

    def __init__(self) -> None:
        self._failure: OSError | None = None

    def write(self, line: bytes) -> None:
        """Write one line."""
        if self._failure is not None:
            return
        try:
            write_line(line)
        except OSError as error:
            # The store calls this, for which an error would mean that the log cannot be written.
            # `finish` raises it once the turn has ended and is recorded.
            self._failure = error

    def finish(self, session_id: str) -> None:
        """Report that stdout did not take all lines.

        Raises:
            BrokenPipeError: the reader closed the pipe.
            ExplainedError: the disk is full, or the like.
        """
        if self._failure is None:
            return
        if isinstance(self._failure, BrokenPipeError):
            raise self._failure
        raise ExplainedError(
            "Not all records were written to stdout. The turn is complete.",
            why=f"{self._failure.strerror}.",
            fix=f"amplifier session show {session_id} --json",
        )
