"""Every error the runtime raises.

DurableError
├── NotFoundError           kind, id; also for rows of another tenant
├── ForkError               the log does not reach back to the beginning
├── IdempotencyError        turn_id
├── SessionBusyError        a turn of the session is not finished
├── AlreadyDecidedError     outcome; the approval was decided before
├── CursorError             cursor
├── NoDatabaseError         there is none at the address, or it does not answer
├── SchemaError             fix; a command
├── ExposedDatabaseError    fix; a command
├── ClearKeyError           places; a plan has a key in clear
├── MissingKeyError         name; no place has the key that a plan refers to
├── SecretsError            fix; the table of secrets cannot be used
├── NoWorkerError
├── LeaveTimeoutError       exit_code; the database did not answer while a worker left
└── TurnFailedError         turn_id, error

RunEnded                    a BaseException, so that no loop's `except Exception` swallows it
├── Fenced                  another worker has claimed the turn
└── Suspended               reason; the turn continues later, from its journal
"""

from __future__ import annotations

from typing import Any


class DurableError(Exception):
    """The base of all errors that callers of the runtime may catch."""


class NotFoundError(DurableError):
    """It does not exist, or belongs to another tenant."""

    def __init__(self, kind: str, id: str) -> None:  # noqa: A002 - the name used everywhere
        super().__init__(f"No {kind} `{id}`.")
        self.kind = kind
        self.id = id


class ForkError(DurableError):
    """The log of a session lacks the records that a fork of it would begin with."""


class IdempotencyError(DurableError):
    """The key was used before, for another prompt."""

    def __init__(self, key: str, turn_id: str) -> None:
        super().__init__(
            f"The idempotency key `{key}` belongs to turn `{turn_id}`, which has another prompt. "
            "Use a new key for a new prompt."
        )
        self.turn_id = turn_id


class SessionBusyError(DurableError):
    """A turn of the session is not finished, so it cannot be changed or deleted."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"Session `{session_id}` has a turn that is not finished. "
            "Wait for its result, or cancel it."
        )


class AlreadyDecidedError(DurableError):
    """Another answer, the timeout or a cancellation came first; `outcome` says which."""

    def __init__(self, approval_id: str, outcome: str) -> None:
        super().__init__(f"Approval `{approval_id}` is decided already: {outcome}.")
        self.outcome = outcome


class CursorError(DurableError):
    """A reader's cursor is malformed, or ahead of the session's log."""

    def __init__(self, cursor: str, why: str) -> None:
        super().__init__(f"`{cursor}` {why}. Read from the beginning, without a cursor.")
        self.cursor = cursor


class NoDatabaseError(DurableError):
    """There is no database at the address, or it does not answer."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The database cannot be used: {why}")


class SchemaError(DurableError):
    """The tables do not fit this version of the code; `fix` is the command to run next."""

    def __init__(self, message: str, fix: str = "amplifier runtime status") -> None:
        super().__init__(message)
        self.fix = fix


class ExposedDatabaseError(DurableError):
    """Other users of this machine could read the database file, or have written it."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class ClearKeyError(DurableError):
    """A plan has a key in clear, which would be stored in the database; `places` say where."""

    def __init__(self, places: list[str]) -> None:
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        super().__init__(
            f"The plan has a key in clear at `{places[0][:200]}`{more}.\n"
            "Everybody who reads the database or a backup of it could use the key.\n"
            "Store it with `amplifier runtime secrets set NAME` and write `${NAME}` in its place."
        )
        self.places = places


class MissingKeyError(DurableError):
    """A plan refers to a key that the worker cannot find."""

    def __init__(self, name: str, why: str = "") -> None:
        reason = why or "It is neither among the secrets nor among the keys of this worker."
        super().__init__(
            f"The key `{name}` that the plan refers to was not found.\n{reason}\n"
            f"Store it with `amplifier runtime secrets set {name}`."
        )
        self.name = name


class SecretsError(DurableError):
    """The table of secrets cannot be used; `fix` is the command to run next."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class NoWorkerError(DurableError):
    """No worker is running that would run the turn."""

    def __init__(self) -> None:
        super().__init__(
            "No worker is running, so a durable turn would wait for ever. "
            "Start one with `amplifier worker`."
        )


class LeaveTimeoutError(DurableError):
    """The database did not answer while a worker left; other workers take over its turns."""

    exit_code = 75
    """That of sysexits.h for a temporary failure."""

    def __init__(self, seconds: float, turns: int) -> None:
        said = f"The worker ended without the database, which did not answer for {seconds:g} s."
        had = f"Other workers take over its turns ({turns}) when the database is back."
        super().__init__(f"{said} {had}" if turns else said)


class TurnFailedError(DurableError):
    """The turn ended with an error."""

    def __init__(self, turn_id: str, error: dict[str, Any]) -> None:
        super().__init__(f"Turn `{turn_id}` failed: {error.get('message')}")
        self.turn_id = turn_id
        self.error = error


class RunEnded(BaseException):
    """This run of a turn is over, though the turn is not."""


class Fenced(RunEnded):
    """Another worker has taken the turn over; this run may not write any more."""


class Suspended(RunEnded):
    """The turn gives up its worker and continues later."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
