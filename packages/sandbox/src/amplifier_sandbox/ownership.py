"""Files that only their user can have written: owner and mode of each, and of the folders above."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from amplifier_sandbox.home import amplifier_home

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Exposure(NamedTuple):
    """A file or folder that another user could have written.

    `why` is a sentence, `fix` a shell command for the user who is refused.
    """

    path: Path
    why: str
    fix: str


def is_own_place(path: Path) -> bool:
    """Whether a path is in the folder of Amplifier's own files, by its name or in fact."""
    given = _absolute(path)
    home = _absolute(amplifier_home())
    return given.is_relative_to(home) or _real(given).is_relative_to(_real(home))


def exposure_of(path: Path, status: os.stat_result | None = None) -> Exposure | None:
    """Return what lets another user change a file or folder; None when nothing does.

    As sshd does with its keys: the file and each folder above it, up to the home folder, must
    belong to this user or to root and must not be writable by others, or by a group that has others
    in it. `status` is that of
    the open file, so that nobody can put another one in its place after the check.
    """
    given = _absolute(path)
    real = _real(given)
    for chain in (given, real) if real != given else (given,):
        for place in _chain(chain):
            try:
                found = place.lstat()
            except OSError:
                # What is not there, or cannot be reached, is not read either.
                break
            exposure = _judged(place, found)
            if exposure is not None:
                return exposure
    if status is None:
        return None
    return _judged(real, status)


def exposure_in(folder: Path) -> Exposure | None:
    """Return what lets another user change a folder or anything in it; git's own files aside."""
    exposure = exposure_of(folder)
    if exposure is not None:
        return exposure
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *names):
            place = Path(parent) / name
            # What is removed in this moment can no longer be read.
            with suppress(FileNotFoundError):
                exposure = _judged(place, place.lstat())
            if exposure is not None:
                return exposure
    return None


def _chain(path: Path) -> Iterator[Path]:
    """Yield the folders above a path, from the home folder down, and the path itself."""
    places = [path, *path.parents]
    with suppress(RuntimeError):
        home = _absolute(Path.home())
        for end in (home, _real(home)):
            if end in places:
                places = places[: places.index(end) + 1]
    yield from reversed(places)


def _judged(path: Path, status: os.stat_result) -> Exposure | None:
    if status.st_uid not in (os.geteuid(), 0):
        why = f"`{path}` belongs to another user (uid {status.st_uid})."
        return Exposure(path, why, _way_out(path, status))
    # The mode of a link says nothing, and its target is looked at on its own.
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & _WRITABLE_BY_OTHERS:
        return None
    # In a folder such as /tmp, nobody can replace what belongs to somebody else.
    if status.st_mode & stat.S_ISVTX and stat.S_ISDIR(status.st_mode) and not is_own_place(path):
        return None
    if not status.st_mode & stat.S_IWOTH and _is_private_group(status.st_gid):
        return None
    mode = stat.S_IMODE(status.st_mode)
    why = f"`{path}` can be written by other users (mode {mode:04o}): look at it first."
    return Exposure(path, why, _way_out(path, status))


def _is_private_group(group: int) -> bool:
    """Whether a group is this user's alone, as many systems make one for each user.

    Editors then write files that the group can write, and nobody else is in it.
    """
    import grp  # noqa: PLC0415 - only for what would be refused otherwise
    import pwd  # noqa: PLC0415 - as above

    user = os.geteuid()
    if user == 0:
        return False
    with suppress(KeyError):
        own = pwd.getpwuid(user)
        found = grp.getgrgid(group)
        others = [each for each in pwd.getpwall() if each.pw_gid == group and each.pw_uid != user]
        is_named_so = own.pw_gid == group and found.gr_name == own.pw_name
        return is_named_so and not others and set(found.gr_mem) <= {own.pw_name}
    return False


def _way_out(path: Path, status: os.stat_result) -> str:
    """Return a command that works for this user, whoever owns the file."""
    import shlex  # noqa: PLC0415 - every start checks, few are refused

    if status.st_uid == os.geteuid():
        return f"chmod go-w {shlex.quote(str(path))}"
    if is_own_place(path) and path.parent.stat().st_uid == os.geteuid():
        return f"mv {shlex.quote(str(path))} {shlex.quote(str(_free_name(path)))}"
    return f"export AMPLIFIER_HOME={_another_home()}"


def _free_name(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.refused")
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.refused-{number}")
    return aside


def _another_home() -> str:
    """Return a folder that would be used: in the user's own home, else a temporary one."""
    import pwd  # noqa: PLC0415 - as above
    import shlex  # noqa: PLC0415 - as above

    with suppress(KeyError, OSError):
        own = Path(pwd.getpwuid(os.geteuid()).pw_dir)
        safe = own.is_dir() and not own.stat().st_mode & _WRITABLE_BY_OTHERS
        if safe and own.stat().st_uid == os.geteuid() and own not in amplifier_home().parents:
            return shlex.quote(str(own / ".amplifier"))
    return '"$(mktemp -d)"'


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
