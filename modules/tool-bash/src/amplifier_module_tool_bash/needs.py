"""What one command needs beyond its sandbox: read from the call, shown to guards, then given."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from amplifier_kit.widenings import Widening
from amplifier_sandbox.network.destinations import (
    PACKAGES,
    Destination,
    pinned,
    read_destination,
    registries,
)
from amplifier_sandbox.processes.credentials import may_have_credentials
from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.processes.workspace import checked_workspace
from amplifier_sandbox.project_folder import project_root, why_not_a_project

GIT = ".git"
_MOST = 20


class Needs(BaseModel):
    """The part of a call that asks for more than the sandbox gives."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    network: list[str] = Field(default_factory=list[str], max_length=_MOST)
    write: list[str] = Field(default_factory=list[str], max_length=_MOST)
    background: bool = False
    outside_sandbox: bool = False
    reason: str = Field(default="", max_length=500)

    @model_validator(mode="after")
    def _is_explained(self) -> Needs:
        if self.is_more and not self.reason.strip():
            raise ValueError("`reason` must say why the command needs more than its sandbox")
        if self.outside_sandbox and (self.background or self.network or self.write):
            raise ValueError("`outside_sandbox` includes everything else; give it alone")
        return self

    @property
    def is_more(self) -> bool:
        """Whether anything beyond the sandbox is asked for."""
        return bool(self.network or self.write or self.background or self.outside_sandbox)

    @property
    def reaches_outside(self) -> bool:
        """Whether text of other people can come back, by which they could ask for something.

        What package managers print does not count.
        """
        return self.outside_sandbox or any(each != PACKAGES for each in self.network)


NEEDS_SCHEMA: dict[str, Any] = {
    "network": {
        "type": "array",
        "items": {"type": "string"},
        "description": f"Domains that the command connects to over HTTP or HTTPS, such as "
        f"`example.org` or `*.example.org`; `{PACKAGES}` for the registries of package managers.",
    },
    "write": {
        "type": "array",
        "items": {"type": "string"},
        "description": f"Paths outside of the workspace to write to; `{GIT}` to commit.",
    },
    "background": {
        "type": "boolean",
        "description": "Let it run after this call, as a server; see the tool `bash_jobs`.",
    },
    "outside_sandbox": {
        "type": "boolean",
        "description": "Run it without a sandbox. The last resort.",
    },
    "reason": {
        "type": "string",
        "description": "Why it needs any of these. The user reads it and decides.",
    },
}


class Opened(NamedTuple):
    """What the sandbox of one command opens."""

    destinations: list[Destination]
    writable: list[Path]
    protected: list[str]


class _Shown(NamedTuple):
    """What one question was about."""

    destinations: list[Destination]
    paths: list[Path]


class Boundary:
    """The boundary of a session's commands, and what it takes to widen it for one of them.

    Only what `widenings` returned is opened, with the addresses and the real paths of then.
    """

    def __init__(
        self, workspace: Callable[[], str], protected: Sequence[str], given: set[Path]
    ) -> None:
        """`protected` are the paths in the workspace that commands cannot write to.

        `given` are the folders outside of it that a command of the session was given.
        """
        self._workspace = workspace
        self._protected = list(protected)
        self._given = given
        # By the domains and paths of a call, as the model wrote them.
        self._shown: dict[tuple[tuple[str, ...], tuple[str, ...]], _Shown] = {}

    async def widenings(self, needs: Needs) -> list[Widening]:
        """Return what has to be granted, each exactly as it will be opened.

        Raises:
            SandboxError, ValueError: something that no grant can open.
        """
        key = _key(needs)
        # After a failure nothing of an earlier question may be opened.
        self._shown.pop(key, None)
        found: list[Widening] = []
        destinations: list[Destination] = []
        for each in needs.network:
            wanted = await _destinations(each)
            destinations += wanted
            found.append(Widening("network", _shown_as(each, wanted)))
        paths = [self._path(each) for each in needs.write]
        found += [Widening("write", str(each)) for each in paths]
        self._shown[key] = _Shown(destinations, paths)
        if needs.background:
            found.append(Widening("background"))
        if needs.outside_sandbox:
            found.append(Widening("outside_sandbox"))
        return found

    def check(self, needs: Needs) -> None:
        """Change nothing.

        Raises:
            SandboxError, ValueError: something that no grant can open.
        """
        for each in needs.network:
            if each != PACKAGES:
                read_destination(each)
        for each in needs.write:
            self._path(each)

    def opened(self, needs: Needs) -> Opened:
        """Return what to open for a command whose widenings were granted.

        Raises:
            SandboxError, ValueError: something that no grant can open, or that nobody was asked
                about.
        """
        if not needs.network and not needs.write:
            return Opened([], [], self._protected)
        self.check(needs)
        shown = self._shown.get(_key(needs))
        if shown is None:
            raise SandboxError("nobody was asked about what it needs")
        if [self._path(each) for each in needs.write] != shown.paths:
            raise SandboxError("a path leads elsewhere since it was asked about")
        paths = shown.paths
        protected = self._protected
        repository = self.repository()
        if repository in paths and repository == checked_workspace(self._workspace()) / GIT:
            # The files by which git runs programs stay read-only whatever is listed here.
            protected = [each for each in protected if each != GIT]
            paths = [each for each in paths if each != repository]
        self._given.update(paths)
        return Opened(shown.destinations, paths, protected)

    def repository(self) -> Path | None:
        """Return the `.git` of the workspace, which may be in a folder above it."""
        workspace = checked_workspace(self._workspace())
        found = project_root(workspace) / GIT
        return found if found.is_dir() and not found.is_symlink() else None

    def readable(self) -> list[Path]:
        """Return the root of the repository if it is above the workspace, so that git works."""
        repository = self.repository()
        workspace = checked_workspace(self._workspace())
        if repository is None or repository.parent == workspace:
            return []
        return [repository.parent]

    def _path(self, text: str) -> Path:
        """Return the real path of something to write to."""
        if text == GIT:
            repository = self.repository()
            if repository is None:
                raise SandboxError("there is no git repository here")
            return repository
        workspace = checked_workspace(self._workspace())
        named = workspace / Path(text).expanduser()
        path = Path(os.path.realpath(named))
        if path.is_relative_to(workspace):
            raise SandboxError(
                f"`{text[:200]}` is in the workspace; only `{GIT}` can be opened there"
            )
        if why_not := why_not_a_project(path):
            raise SandboxError(f"{why_not}; no command can be given all of it")
        # What can be written to can be read, too. `.ssh` may be a link to another name.
        if may_have_credentials(named) or may_have_credentials(path):
            raise SandboxError(f"`{path}` may have keys in it, which no command is given")
        above = next((each for each in self._given if each in path.parents), None)
        if above is not None:
            # A command could have put a link in its place, or do so before it is mounted.
            raise SandboxError(
                f"commands could write to `{above}`, which `{path}` is in; name that"
            )
        if not path.exists():
            raise SandboxError(f"`{path}` does not exist; name the folder above it")
        return path


def _key(needs: Needs) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(needs.network), tuple(needs.write)


async def _destinations(text: str) -> list[Destination]:
    if text != PACKAGES:
        return [read_destination(text)]
    # A registry may be a mirror inside of the user's network; the question names its address.
    return list(await asyncio.gather(*map(pinned, registries())))


def _shown_as(text: str, wanted: list[Destination]) -> str:
    if text != PACKAGES:
        return str(wanted[0])
    private = [str(each) for each in wanted if each.addresses]
    # A change of address is another widening, which is asked about again.
    return f"{PACKAGES} ({', '.join(private)})" if private else PACKAGES
