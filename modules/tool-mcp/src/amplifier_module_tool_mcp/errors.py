"""The one error of this module: a server did not do what it was asked."""

from __future__ import annotations

from typing import Literal

FailureKind = Literal[
    "invalid_input", "not_approved", "unreachable", "connection_lost", "timeout", "server_error"
]


class ServerFailure(Exception):
    """What went wrong with a server, in words for the model and the person."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
