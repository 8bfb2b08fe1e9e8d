"""Remembered answers: those of a session in its state, others in a private file."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, TypeAdapter, ValidationError

from amplifier_kit.durable_files import make_private_folder, write_whole
from amplifier_kit.widenings import CallScope, Kind, Widening
from amplifier_module_hooks_approval.config import Scope
from amplifier_module_hooks_approval.rules import Call, matches
from amplifier_sandbox.home import expanded
from amplifier_sandbox.ownership import exposure_of
from amplifier_sandbox.platforms.locks import locked
from amplifier_sandbox.platforms.opening import open_itself

_MOST_BYTES = 4_000_000


class GrantsError(Exception):
    """The remembered answers are damaged, or could have been written by somebody else."""


class Grant(BaseModel):
    """A yes or no that applies to later calls too.

    It is about exactly one call, about those of a pattern or of a scope that the tool names, or
    about one widening of the sandbox.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    action: Literal["allow", "deny"]
    tool: str
    arguments: dict[str, str]
    digest: str | None
    matches: str
    # Of a grant about a widening: its kind, and its domain or path.
    widens: Kind | None = None
    target: str = ""
    # Of a grant about a scope: the key that its calls have.
    within: str | None = None
    scope: Scope
    project: str | None
    until: AwareDatetime
    who: str
    made: AwareDatetime

    @property
    def words(self) -> str:
        """What it is about, for an option of a question."""
        return "exactly this call" if self.digest else self.matches

    @property
    def lasts(self) -> str:
        """How long it lasts from now on."""
        # Not until when: a replay asks the same question at another time.
        return _duration(self.until - self.made)

    def covers(self, call: Call, project: str, now: datetime) -> bool:
        """Whether it applies to a call in a project, now."""
        is_about_calls = self.widens is None and self.within is None
        if not is_about_calls or not self._is_in_force(project, now):
            return False
        if self.digest is not None:
            return self.digest == call.digest
        return matches(self, call, wary=self.action == "allow")

    def opens(self, widening: Widening, project: str, now: datetime) -> bool:
        """Whether it allows a widening in a project, now."""
        is_it = (self.widens, self.target) == (widening.kind, widening.target)
        return is_it and self.action == "allow" and self._is_in_force(project, now)

    def includes(self, scopes: Sequence[CallScope], project: str, now: datetime) -> bool:
        """Whether it allows the calls of one of these scopes in a project, now."""
        is_it = any(self.within == each.key for each in scopes)
        return is_it and self.action == "allow" and self._is_in_force(project, now)

    def _is_in_force(self, project: str, now: datetime) -> bool:
        return self.until > now and (self.scope != "project" or self.project == project)


def _duration(span: timedelta) -> str:
    """Return a time in its largest unit that leaves no rest."""
    seconds = round(span.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds} seconds"


_GRANTS = TypeAdapter(list[Grant])


class GrantFile:
    """The grants of a user, in a file that only this user can write."""

    def __init__(self, path: Path) -> None:
        self.path = expanded(path)
        self._seen: tuple[int, ...] | None = None
        self._grants: list[Grant] = []

    def read(self) -> list[Grant]:
        """Return the grants in the file now; an empty list if there is no file.

        Raises:
            GrantsError: it is damaged, or somebody else could have written it.
        """
        try:
            fd = open_itself(self.path, os.O_RDONLY)
        except FileNotFoundError:
            self._seen = None
            return []
        except OSError as error:
            raise GrantsError(f"{self.path} cannot be read: {error.strerror}") from error
        try:
            about = os.fstat(fd)
            seen = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_mode, about.st_uid)
            # Checked on the open file at every call; only parsing is cached.
            self._check(about)
            if seen != self._seen:
                with open(fd, "rb", closefd=False) as file:
                    self._grants = _parsed(file.read(), str(self.path))
                self._seen = seen
        finally:
            os.close(fd)
        return self._grants

    def change(self, edit: Callable[[list[Grant]], list[Grant]]) -> None:
        """Replace the grants atomically with what `edit` returns; blocks.

        Raises:
            GrantsError: the file cannot be relied on, or cannot be written.
        """
        try:
            make_private_folder(self.path.parent)
            # A file of its own: the grants are replaced, and a lock on them would be lost.
            with locked(self.path.with_name(f"{self.path.name}.lock")):
                write_whole(self.path, _GRANTS.dump_json(edit(self.read()), indent=2))
        except OSError as error:
            raise GrantsError(f"{self.path} cannot be written: {error.strerror}") from error

    def _check(self, about: os.stat_result) -> None:
        if not stat.S_ISREG(about.st_mode):
            raise GrantsError(f"{self.path} is no regular file")
        exposure = exposure_of(self.path, about)
        if exposure is not None:
            raise GrantsError(f"{exposure.why} Then: {exposure.fix}")
        if about.st_size > _MOST_BYTES:
            raise GrantsError(f"{self.path} is larger than {_MOST_BYTES} bytes")


class Grants:
    """All grants that apply to a session and to those forked from it."""

    def __init__(self, file: GrantFile, state: dict[str, Any]) -> None:
        """`state` stores those of the session."""
        self._file = file
        self._state = state
        self._lock = threading.Lock()

    def all(self) -> list[Grant]:
        """Return every grant, expired ones too.

        Raises:
            GrantsError: they cannot be relied on; the guard then denies every call.
        """
        return [*self._of_session(), *self._file.read()]

    def find(self, call: Call, project: str, now: datetime) -> Grant | None:
        """Return the grant that applies to a call, one that denies before one that allows."""
        found = [each for each in self.all() if each.covers(call, project, now)]
        return min(found, key=lambda each: each.action == "allow", default=None)

    def for_scope(self, scopes: Sequence[CallScope], project: str, now: datetime) -> Grant | None:
        """Return a grant that allows the calls of one of these scopes."""
        if not scopes:
            return None
        return next((each for each in self.all() if each.includes(scopes, project, now)), None)

    def missing(self, widenings: Sequence[Widening], project: str, now: datetime) -> list[Widening]:
        """Return the widenings that no grant allows."""
        grants = self.all()
        return [
            each for each in widenings if not any(one.opens(each, project, now) for one in grants)
        ]

    def add(self, grant: Grant) -> None:
        """Add a grant, and delete expired ones; blocks."""

        def edit(grants: list[Grant]) -> list[Grant]:
            return [*(each for each in grants if each.until > grant.made), grant]

        self._change(edit, in_session=grant.scope == "session")

    def revoke(self, grant_id: str) -> bool:
        """Delete a grant; False if there is none of this id. Blocks."""
        for in_session, grants in ((True, self._of_session()), (False, self._file.read())):
            if any(each.id == grant_id for each in grants):
                self._change(
                    lambda grants: [each for each in grants if each.id != grant_id],
                    in_session=in_session,
                )
                return True
        return False

    def _of_session(self) -> list[Grant]:
        try:
            return _GRANTS.validate_python(self._state.get("grants", []))
        except ValidationError as error:
            raise GrantsError("the grants in the session's state are damaged") from error

    def _change(self, edit: Callable[[list[Grant]], list[Grant]], *, in_session: bool) -> None:
        if in_session:
            with self._lock:
                self._state["grants"] = _GRANTS.dump_python(edit(self._of_session()), mode="json")
        else:
            self._file.change(edit)


def _parsed(data: bytes, name: str) -> list[Grant]:
    try:
        return _GRANTS.validate_json(data)
    except ValidationError as error:
        raise GrantsError(f"{name} is damaged: {error.errors()[0]['msg']}") from error
