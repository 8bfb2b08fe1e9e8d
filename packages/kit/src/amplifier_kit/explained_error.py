"""The root of the errors that a user reads: what happened, why, and what to do next."""

from __future__ import annotations

__all__ = ["ExplainedError"]


class ExplainedError(Exception):
    """`message` is what happened, `why` the cause, `fix` the next command to type.

    `exit_code` is what a command that ends with this error returns.
    """

    exit_code = 1

    def __init__(self, message: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        return " ".join(part for part in (self.message, self.why, self.fix) if part)
