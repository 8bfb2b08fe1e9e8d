"""The files of a session: what it has read, and the changes it makes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import NamedTuple

from amplifier_module_files.checkpoints import Checkpoints, digest_of
from amplifier_sandbox.files.names import RefusedError, shown
from amplifier_sandbox.files.rooted import Entry
from amplifier_sandbox.files.workspace import Place, Workspace

_DIGITS = 12


class Changed(NamedTuple):
    """A completed change; `old` is None for a new file."""

    path: str
    old: bytes | None
    new: bytes


class SessionFiles:
    """Reads and changes files, and refuses to change one that changed since it was last read.

    All methods block, and raise RefusedError or OSError.
    """

    def __init__(self, workspace: Workspace, checkpoints: Checkpoints, limit: int) -> None:
        self._workspace = workspace
        self._checkpoints = checkpoints
        self._limit = limit
        self._seen: dict[str, str | None] = {}
        # Tool calls of one answer run in parallel; two edits of one file must not lose each other.
        self._changing = threading.Lock()

    def read(self, path: str) -> tuple[str, bytes]:
        """Return the path and the content of a file."""
        place = self._workspace.locate(path)
        try:
            data = place.root.read(place.name, self._limit)
        except FileNotFoundError:
            # The session knows that it is gone, and may create it again.
            self._seen.pop(place.path, None)
            raise
        self._seen[place.path] = digest_of(data)
        return place.path, data

    def entries(self, path: str, limit: int) -> tuple[str, list[Entry], int]:
        """Return the path of a folder, its first entries, and the number of all."""
        place = self._workspace.locate(path)
        return place.path, *place.root.list_dir(place.name, limit)

    def change(self, path: str, make: Callable[[bytes | None], bytes]) -> Changed:
        """Replace the content of a file by `make(content)`; the content is None for a new file."""
        place = self._workspace.locate_for_writing(path)
        with self._changing:
            old, new = self._made(place, path, make)
            if new != old:
                self._checkpoints.change(place, old, new)
            self._seen[place.path] = digest_of(new)
            return Changed(place.path, old, new)

    def check(self, path: str, make: Callable[[bytes | None], bytes]) -> Changed:
        """Return or raise what `change` would now, without changing anything."""
        place = self._workspace.locate_for_writing(path)
        with self._changing:
            return Changed(place.path, *self._made(place, path, make))

    def short_name(self, path: str) -> str:
        """Return a path as it is from the working folder, if it is in there."""
        folder = self._workspace.roots[0].path
        inside = PurePosixPath(path).is_relative_to(folder)
        return str(PurePosixPath(path).relative_to(folder)) if inside else path

    def folders_of(self, path: str) -> list[PurePosixPath]:
        """Return the folder in which a change of `path` would be made, and those above it."""
        # Writing follows no link, so the folders are those in the text.
        place = self._workspace.locate_for_writing(path)
        root = PurePosixPath(place.root.path)
        above = PurePosixPath(place.path).parents
        return [each for each in above if each.is_relative_to(root)]

    def edits_in(self, folder: PurePosixPath) -> str:
        """Return in words which edits are meant: all of a folder and of those in it."""
        working = PurePosixPath(self._workspace.roots[0].path)
        if folder == working:
            return "edits in the whole project"
        if folder.is_relative_to(working):
            folder = folder.relative_to(working)
        return f"edits in `{shown(str(folder))}/`"

    def _made(
        self, place: Place, path: str, make: Callable[[bytes | None], bytes]
    ) -> tuple[bytes | None, bytes]:
        """Return the current and the new content of a file."""
        old = self._checkpoints.content(place)
        self._require_as_seen(place.path, old)
        new = make(old)
        if len(new) > self._limit:
            raise RefusedError(
                "size",
                f"`{shown(path)}` would have {len(new):,} bytes; the limit is {self._limit:,}.",
            )
        return old, new

    def _require_as_seen(self, path: str, now: bytes | None) -> None:
        seen = self._seen.get(path)
        found = digest_of(now)
        if seen is not None and seen != found:
            if found:
                there = f"now it has {found[:_DIGITS]}"
            else:
                there = "now it is gone"
            raise RefusedError(
                "changed",
                f"`{shown(path)}` was changed since it was read: it had the hash {seen[:_DIGITS]}, "
                f"{there}. Read it again.",
            )
