"""Protecting this process's own code, settings and keys from a confined program."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path, PurePosixPath

from amplifier_sandbox.own.paths import OwnPaths, hidden_paths, own_paths
from amplifier_sandbox.processes.limits import SandboxError
from amplifier_sandbox.processes.workspace import Held, place_to_hold

_INSTALLED = ("site-packages", "dist-packages")

# Device and inode, which are the same for all hard links of a file.
_Identity = tuple[int, int]


@cache
def shared_files(folder: Path) -> tuple[Path, ...]:
    """Return the paths in `folder` that share files with this program, through hard links.

    Installers such as uv link files into several environments; writing to one would change ours.
    In an environment it is the whole folder of packages. The result is cached: a program that
    cannot write to a shared file cannot make another link to it either.
    """
    ours = _ours_with_names_elsewhere()
    if not ours:
        return ()
    found = {
        _outermost_packages(Path(path), folder)
        for path, status in _linked_files(str(folder))
        if (status.st_dev, status.st_ino) in ours
    }
    return tuple(sorted(found))


@cache
def _ours_with_names_elsewhere() -> frozenset[_Identity]:
    """Return the files of this process that have a hard link outside of its own folders."""
    names: Counter[_Identity] = Counter()
    links: dict[_Identity, int] = {}
    for root in _folders_of_links():
        for _, status in _linked_files(root):
            identity = (status.st_dev, status.st_ino)
            names[identity] += 1
            links[identity] = status.st_nlink
    return frozenset(each for each, count in names.items() if links[each] > count)


def _folders_of_links() -> list[str]:
    """Return the folders of packages that an installer filled with hard links.

    An installer links all files of a package, so only one file of each package is checked.
    """
    return [
        folder
        for folder in dict.fromkeys(map(os.path.realpath, sys.path))
        if any(_has_links(file) for file in Path(folder).glob("*.dist-info/METADATA"))
    ]


def _has_links(file: Path) -> bool:
    try:
        return file.lstat().st_nlink > 1
    except OSError:
        return False


def _linked_files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the regular files beneath `root` that have more than one hard link."""
    for above, _, names in os.walk(root):
        for name in names:
            path = os.path.join(above, name)  # noqa: PTH118 - many thousands of files
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
                yield path, found


def _outermost_packages(path: Path, folder: Path) -> Path:
    """Return the folder of packages that a file is in, else the file itself."""
    for above in reversed(path.relative_to(folder).parents):
        if above.name in _INSTALLED:
            return folder / above
    return path


_MOST_SHARED = 200


class OwnCode:
    """The paths of this program in the folders that a confined program is given."""

    def __init__(self, writable: Sequence[Path], read_only: Sequence[Path]) -> None:
        """Raise a SandboxError if a folder cannot be given to a program at all."""
        self._found = [(folder, own_paths(folder)) for folder in writable]
        self._shared = [(folder, shared_files(folder)) for folder in writable]
        self._hidden_elsewhere = [
            path
            for path in hidden_paths()
            if os.path.exists(path)  # noqa: PTH110 - false, not an error, where we may not look
            and any(path.is_relative_to(folder) for folder in read_only)
        ]
        for folder, own in self._found:
            _check(folder, own)
        if sum(len(files) for _, files in self._shared) > _MOST_SHARED:
            raise SandboxError(
                "the workspace has too many hard links to files that this program runs from; "
                "reinstall one of the two without links (uv: `--link-mode=copy --reinstall`)"
            )

    def inside(self) -> Iterator[Path]:
        """Yield every path that has to be protected, except those of git."""
        for _, own in self._found:
            yield from own.read_only
            yield from own.hidden
        for _, files in self._shared:
            yield from files
        yield from self._hidden_elsewhere

    def hold(self, held: Held, stack: ExitStack) -> None:
        """Add to `held` what has to be mounted, as `ProtectedPaths.hold` does."""
        for folder, own in self._found:
            for path in own.hidden:
                held.hidden.append(place_to_hold(_within(path, folder), folder, held, stack))
            for path in own.read_only:
                _add(path, folder, held, stack)
            for file in own.git:
                _add(file.path, folder, held, stack, file.without_effect)
        for folder, files in self._shared:
            for path in files:
                _add(path, folder, held, stack)
        held.hidden += self._hidden_elsewhere


def _check(folder: Path, own: OwnPaths) -> None:
    if own.around is not None:
        raise SandboxError(
            f"`{folder}` is in `{own.around}`, which this program runs from or keeps its keys in: "
            "a command could rewrite the program; start it in another folder, or with `python -P` "
            "if the folder is only on its search path"
        )
    if own.links:
        raise SandboxError(
            f"`{own.links[0]}` is a symbolic link to what this program runs from, and cannot be "
            "protected from being replaced; put the real folder in its place, or outside"
        )


def _add(
    path: Path, folder: Path, held: Held, stack: ExitStack, without_effect: bytes | None = None
) -> None:
    if not held.covers(path):
        within = _within(path, folder)
        held.paths.append(place_to_hold(within, folder, held, stack, without_effect=without_effect))


def _within(path: Path, folder: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(folder))
