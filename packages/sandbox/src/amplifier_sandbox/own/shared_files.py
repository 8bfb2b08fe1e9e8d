"""Files of a folder that are hard links to files this process runs from.

Some installers link the same file into every environment instead of copying it. Writing to one of
them in place changes all of them, wherever they are.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_INSTALLED = ("site-packages", "dist-packages")

# The device and the number of a file there, by which all its names are known.
_Identity = tuple[int, int]


@cache
def shared_files(folder: Path) -> tuple[Path, ...]:
    """Return what has to stay as it is in `folder`, so that no file of ours changes with it.

    Of an environment this is its whole folder of packages. It is looked for once: a program that is
    kept from writing to a shared file cannot make another link to it.
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
    """Return the files of this process that have a name outside of its own folders."""
    names: Counter[_Identity] = Counter()
    links: dict[_Identity, int] = {}
    for root in _folders_of_links():
        for _, status in _linked_files(root):
            identity = (status.st_dev, status.st_ino)
            names[identity] += 1
            links[identity] = status.st_nlink
    return frozenset(each for each, count in names.items() if links[each] > count)


def _folders_of_links() -> list[str]:
    """Return the folders of packages that an installer filled with links.

    It links all files of a package, so one file of each package is looked at, not all of them.
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
    """Yield the regular files beneath `root` that have more than one name."""
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
