"""The error of this module: a request to a server failed."""

from __future__ import annotations

from typing import Literal

FailureKind = Literal[
    "invalid_input", "not_approved", "unreachable", "connection_lost", "timeout", "server_error"
]


class ServerFailure(Exception):
    """A request to a server failed; the message is for the model and the user."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
