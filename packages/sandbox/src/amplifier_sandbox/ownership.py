"""Whether only the user can have written a file, by owner and mode, with the folders above it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from amplifier_sandbox.home import amplifier_home
from amplifier_sandbox.platforms.users import home_of_account, in_profile

# Of macOS; whoever is in it can become root. Homebrew lets it write to its folders.
_ADMINISTRATORS = 80
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
    """Return what lets another user change a file or folder; None if nothing does.

    As sshd does with its keys: the file and each folder above it, up to the home folder, must
    belong to this user or to root and must not be writable by others, or by a group that has others
    in it. `status` is that of the open file, so that the file cannot be replaced after the check.
    On Windows, it must be in the user's profile.
    """
    if sys.platform == "win32":
        return None if in_profile(path) else _outside_of_profile(path)
    given = _absolute(path)
    real = _real(given)
    # Both names: whoever can replace a link on the way decides what is read, too.
    for chain in (given, real) if real != given else (given,):
        for place in _chain(chain):
            try:
                found = place.lstat()
            except OSError:
                # A file that is missing, or out of reach, is not read either.
                break
            exposure = _judged(place, found)
            if exposure is not None:
                return exposure
    if status is None:
        return None
    return _judged(real, status)


def exposure_in(folder: Path) -> Exposure | None:
    """Return what lets another user change a folder or anything in it, except in `.git`."""
    exposure = exposure_of(folder)
    if exposure is not None or sys.platform == "win32":
        return exposure
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *names):
            place = Path(parent) / name
            # A file that was just removed cannot be read.
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


def _outside_of_profile(path: Path) -> Exposure:
    why = f"`{path}` is not in your user profile, so other users may be able to write it."
    return Exposure(path, why, r"set AMPLIFIER_HOME=%USERPROFILE%\.amplifier")


def _judged(path: Path, status: os.stat_result) -> Exposure | None:
    assert sys.platform != "win32"
    if status.st_uid not in (os.geteuid(), 0):
        why = f"`{path}` belongs to another user (uid {status.st_uid})."
        return Exposure(path, why, _way_out(path, status))
    # The mode of a link means nothing, and its target is checked on its own.
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & _WRITABLE_BY_OTHERS:
        return None
    # With the sticky bit, as on /tmp, nobody can replace another user's files.
    if status.st_mode & stat.S_ISVTX and stat.S_ISDIR(status.st_mode) and not is_own_place(path):
        return None
    if not status.st_mode & stat.S_IWOTH and _is_private_group(status.st_gid):
        return None
    mode = stat.S_IMODE(status.st_mode)
    why = f"`{path}` can be written by other users (mode {mode:04o}): look at it first."
    return Exposure(path, why, _way_out(path, status))


def _is_private_group(group: int) -> bool:
    """Whether a group has this user as its only member, as many systems create one per user.

    The umask is then 002, so editors write files that this group can write.
    """
    import grp  # noqa: PLC0415 - only for what would be refused otherwise
    import pwd  # noqa: PLC0415 - as above

    assert sys.platform != "win32"
    if sys.platform == "darwin" and group == _ADMINISTRATORS:
        return True
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

    assert sys.platform != "win32"
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
    """Return a folder that would be accepted: in the user's own home, else a temporary one."""
    import shlex  # noqa: PLC0415 - as above

    assert sys.platform != "win32"
    own = home_of_account()
    if own is None:
        return '"$(mktemp -d)"'
    with suppress(OSError):
        safe = own.is_dir() and not own.stat().st_mode & _WRITABLE_BY_OTHERS
        if safe and own.stat().st_uid == os.geteuid() and own not in amplifier_home().parents:
            return shlex.quote(str(own / ".amplifier"))
    return '"$(mktemp -d)"'


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
