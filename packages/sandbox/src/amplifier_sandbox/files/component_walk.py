"""Opening a name beneath a folder one part after the other, where the kernel has no `openat2`."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

from amplifier_sandbox.platforms.opening import CLOSE_ON_EXEC, NO_FOLLOW, NO_WAIT, ONLY_FOLDER

# Systems without O_PATH, such as macOS, open the place for reading.
PLACE: int = getattr(os, "O_PATH", os.O_RDONLY | NO_WAIT)
FOLDER = PLACE | ONLY_FOLDER | CLOSE_ON_EXEC

# As many as Linux follows for one path.
_MOST_LINKS = 40
# What `open` returns for a link that it may not follow: ENOTDIR with O_DIRECTORY on Linux.
_MAYBE_A_LINK = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)

_Identity = tuple[int, int]


@contextmanager
def closing(fd: int) -> Generator[int]:
    """Close a descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def walk_beneath(folder: int, name: str, flags: int, *, follow: bool, mode: int = 0) -> int:
    """Open `name` as `openat2` does with RESOLVE_BENEATH, and with RESOLVE_NO_SYMLINKS.

    Each part is opened relative to the descriptor of the folder before it and never through a link,
    so that no other process can lead the walk out by renaming or replacing what is on its way. With
    `follow`, a link is read, and its parts are walked in the same way.

    Raises:
        OSError: EXDEV if the name leads out of `folder`; ELOOP if a link is in the way, or more
            than can be followed; EAGAIN if something was moved meanwhile; else the kernel's reason.
    """
    stem = name.rstrip("/")
    last = stem.rpartition("/")[2]
    if flags & os.O_CREAT and stem != name and last not in ("", ".", ".."):
        # What ends in a slash is a folder, which the kernel does not create as a file. It looks at
        # the folders above first.
        os.close(walk_beneath(folder, stem.removesuffix(last), FOLDER, follow=follow))
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    walk = _Walk(folder, name)
    try:
        walk.add(name)
        while True:
            part = walk.waiting.pop()
            is_last = not walk.waiting
            if part == "..":
                walk.go_up()
                continue
            if part == "." and not is_last:
                continue
            opened = _opened(walk.current, part, flags if is_last else FOLDER, mode)
            if isinstance(opened, str):
                walk.follow(opened, may_follow=follow)
            elif is_last:
                return opened
            else:
                walk.enter(opened)
    finally:
        os.close(walk.current)


class _Walk:
    """Where a walk is, and the parts that it has still to go, the next one last."""

    def __init__(self, folder: int, name: str) -> None:
        self._name = name
        self.current = os.open(".", FOLDER, dir_fd=folder)
        self._passed: list[_Identity] = []
        self.waiting: list[str] = []
        self._links = 0

    def add(self, text: str) -> None:
        """Walk the parts of a name, or of what a link has in it, before all others."""
        if text.startswith("/"):
            raise self._error(errno.EXDEV)
        given = text.split("/")
        parts = [part for part in given if part not in ("", ".")]
        # What ends in a slash or a dot has to be a folder, which `.` is opened in. The parent is
        # only known when the walk has been there.
        if given[-1] in ("", ".", ".."):
            parts.append(".")
        self.waiting += reversed(parts)

    def enter(self, folder: int) -> None:
        """Continue from the folder below."""
        self._passed.append(_identity(self.current))
        os.close(self.current)
        self.current = folder

    def go_up(self) -> None:
        """Continue from the folder that the walk came from."""
        if not self._passed:
            raise self._error(errno.EXDEV)
        above = os.open("..", FOLDER, dir_fd=self.current)
        if _identity(above) != self._passed.pop():
            # The current folder was moved, maybe out of the root.
            os.close(above)
            raise self._error(errno.EAGAIN)
        os.close(self.current)
        self.current = above

    def follow(self, target: str, *, may_follow: bool) -> None:
        """Continue with what a link has in it."""
        self._links += 1
        if not may_follow or self._links > _MOST_LINKS:
            raise self._error(errno.ELOOP)
        self.add(target)

    def _error(self, code: int) -> OSError:
        return OSError(code, os.strerror(code), self._name)


def _opened(folder: int, part: str, flags: int, mode: int) -> int | str:
    """Open one part; return its descriptor, or the target if it is a link."""
    try:
        fd = os.open(part, flags | NO_FOLLOW, mode, dir_fd=folder)
    except OSError as error:
        if error.errno not in _MAYBE_A_LINK:
            raise
        target = _target(folder, part)
        if target is None and error.errno == errno.ENOTDIR and not _is_folder(folder, part):
            raise
    else:
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            return fd
        # With O_PATH, it is the link that was opened.
        os.close(fd)
        target = _target(folder, part)
    if target is None:
        # The link was replaced in this moment.
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), part)
    return target


def _target(folder: int, part: str) -> str | None:
    """Return what a link has in it; None if it is not a link."""
    try:
        return os.readlink(part, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _is_folder(folder: int, part: str) -> bool:
    return stat.S_ISDIR(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)


def _identity(fd: int) -> _Identity:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
