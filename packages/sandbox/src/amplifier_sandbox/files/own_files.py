"""The files of this program in a folder: which no file tool may write, and which none may read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from amplifier_sandbox.files.names import RefusedError, shown
from amplifier_sandbox.own.paths import hidden_paths, own_paths
from amplifier_sandbox.platforms.open_path import path_of

_Identity = tuple[int, int]


class OwnFiles:
    """Refuses the same list of paths as the sandbox of commands.

    Files are compared by identity and not only by name, because some file systems accept several
    spellings of one name.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = Path(os.path.realpath(folder))
        hidden = hidden_paths()
        self._hidden = [
            path
            for path in hidden
            if path.is_relative_to(self._folder) or self._folder.is_relative_to(path)
        ]

    def require_writable(self, name: str) -> None:
        """Raise RefusedError if a name in the folder is one of ours; links are not followed."""
        own = own_paths(self._folder)
        if own.around is not None:
            raise RefusedError(
                "protected",
                f"`{shown(name)}` is not written by any tool: `{self._folder}` is in "
                f"`{own.around}`, which this program runs from or keeps its keys in. "
                "Ask the user to start it in another folder.",
            )
        git = (file.path for file in own.git)
        place = Path(os.path.normpath(self._folder / name))
        found = _first_above(place, [*own.read_only, *own.hidden, *own.links, *git])
        if found is not None:
            raise RefusedError(
                "protected",
                f"`{shown(name)}` is not written by any tool: this program, or git, runs what is "
                f"in `{found}`. Ask the user to change it.",
            )

    def require_readable(self, name: str, descriptor: int) -> None:
        """Raise RefusedError if the file opened under a name is hidden."""
        if not self._hidden:
            return
        place = path_of(descriptor) or Path(os.path.realpath(self._folder / name))
        status = os.fstat(descriptor)
        # A hard link to a hidden file has a path elsewhere; only its inode gives it away.
        is_linked = status.st_nlink > 1 and stat.S_ISREG(status.st_mode)
        is_hidden_link = is_linked and _identity(status) in self._hidden_links
        if is_hidden_link or _first_above(place, self._hidden) is not None:
            raise RefusedError(
                "protected",
                f"`{shown(name)}` is not read by any tool: keys and sessions are kept there.",
            )

    @cached_property
    def _hidden_links(self) -> set[_Identity]:
        """The hidden files that have other names."""
        found: set[_Identity] = set()
        for hidden in self._hidden:
            for above, _, names in os.walk(hidden):
                found |= {_identity(each) for each in _statuses(above, names) if each.st_nlink > 1}
        return found


def _statuses(folder: str, names: list[str]) -> Iterator[os.stat_result]:
    for name in names:
        try:
            yield Path(folder, name).lstat()
        except OSError:
            continue


def _first_above(place: Path, ours: list[Path]) -> Path | None:
    """Return the path in `ours` that `place` is, or is in."""
    for path in ours:
        if place.is_relative_to(path):
            return path
    known = {identity: path for path in ours if (identity := _identity_of(path)) is not None}
    for above in (*reversed(place.parents), place):
        if above.is_symlink():
            # Writing refuses the name because of the link, so its target does not matter.
            return None
        identity = _identity_of(above)
        if identity in known:
            return known[identity]
    return None


def _identity_of(path: Path) -> _Identity | None:
    try:
        return _identity(path.lstat())
    except OSError:
        return None


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
