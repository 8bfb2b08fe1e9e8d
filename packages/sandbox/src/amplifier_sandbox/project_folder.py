"""Which folder is the project, and which can be none: the user's home and what contains it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from amplifier_sandbox.home import amplifier_home
from amplifier_sandbox.platforms.users import home_of_account, is_users

_OWN_FILES = "the folder of Amplifier's own keys, settings and logs"
_MARKS = (".git", ".amplifier")


def project_root(folder: Path) -> Path:
    """Return the project of a folder: the nearest folder from there upwards with a mark of one.

    That is a repository's root, or a folder with an `.amplifier` of its own. Without one, it is
    the folder itself.
    """
    for candidate in (folder, *folder.parents):
        if why_not_a_project(candidate) is not None:
            break
        # Another user's `/tmp/.git` must not make all of `/tmp` the project.
        has_mark = any((candidate / mark).exists() for mark in _MARKS)
        if has_mark and is_users(candidate, candidate.stat()):
            return candidate
    return folder


def why_not_a_project(folder: Path) -> str | None:
    """Return why no tool may work in a folder; None if it can be a project.

    A home folder has keys, passwords and the logs of every other project. Folders are compared by
    identity, so that neither a link nor a second mount of the home folder gets around the check.
    """
    real = Path(os.path.realpath(folder))
    if real.parent == real:
        return f"`{folder}` is the root of the file system"
    for home in _user_homes():
        if _is_in(home, real):
            return f"`{folder}` {_relation(home, real)} your home folder"
    own = _real_path(amplifier_home)
    if own is not None and _is_in(own, real):
        return f"`{folder}` {_relation(own, real)} {_OWN_FILES}"
    if own is not None and _is_in(real, own):
        return f"`{folder}` is inside {_OWN_FILES}"
    return None


def _user_homes() -> list[Path]:
    """Return the home folder that HOME names and the one of the user database."""
    # Another HOME does not change which files the process can read.
    found = [_real_path(Path.home), _real_path(home_of_account)]
    # The home of a user without one, as in some containers, is `/`.
    return [home for home in found if home is not None and home.parent != home]


def _real_path(find: Callable[[], Path | None]) -> Path | None:
    with suppress(RuntimeError):
        found = find()
        return None if found is None else Path(os.path.realpath(found))
    return None


def _is_in(inner: Path, outer: Path) -> bool:
    """Whether `outer` is `inner` or a folder above it; both are real paths."""
    if inner.is_relative_to(outer):
        return True
    try:
        status = outer.stat()
    except OSError:
        return False
    for each in (inner, *inner.parents):
        with suppress(OSError):
            if os.path.samestat(each.stat(), status):
                return True
    return False


def _relation(inner: Path, outer: Path) -> str:
    same = inner == outer or (inner.exists() and inner.samefile(outer))
    return "is" if same else "contains"
