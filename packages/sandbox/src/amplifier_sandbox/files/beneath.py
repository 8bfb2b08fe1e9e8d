"""Opening a name beneath a folder by descriptor, so that what is checked is what is used."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import struct
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath

from amplifier_sandbox.files.errors import RefusedError
from amplifier_sandbox.files.names import shown

# The same number on every architecture but alpha.
_OPENAT2 = 437
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08
# Where a descriptor cannot stand for a place alone, it is opened for reading.
PLACE = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
FOLDER = PLACE | os.O_DIRECTORY | os.O_CLOEXEC
# The kernel asks to try again when a folder moved while it went through it.
_TRIES = 64


@contextmanager
def closing(fd: int) -> Generator[int]:
    """Give a descriptor and close it."""
    try:
        yield fd
    finally:
        os.close(fd)


@functools.cache
def kernel_resolves_beneath() -> bool:
    """Whether the kernel itself holds a path beneath a folder; old ones and some jails do not."""
    if sys.platform != "linux":
        return False
    try:
        with closing(os.open("/", FOLDER)) as folder:
            os.close(_openat2(folder, ".", FOLDER, _BENEATH))
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return False
        raise
    return True


def open_beneath(folder: int, name: str, flags: int, *, follow: bool, mode: int = 0) -> int:
    """Open `name`, and only if every step to it stays beneath `folder`.

    With `follow`, symbolic links are followed as long as they stay beneath it too; a kernel that
    cannot hold them there follows none. `mode` is that of a file that `flags` create.

    Raises:
        RefusedError: by the rules `outside` and `link`.
        OSError: the kernel's other reasons.
    """
    flags |= os.O_CLOEXEC
    if not kernel_resolves_beneath():
        return _walk(folder, name, flags, mode)
    resolve = _BENEATH | _NO_MAGICLINKS | (0 if follow else _NO_SYMLINKS)
    try:
        return _openat2(folder, name or ".", flags, resolve, mode)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise _outside(name) from error
        if error.errno == errno.ELOOP:
            raise _link(name) from error
        raise


def create_beneath(folder: int, name: str, mode: int = 0o666) -> int:
    """Create a file that is not there yet, and the folders above it; return its descriptor.

    Nothing is waited for until it is on the disk.

    Raises:
        RefusedError: by the rules `outside` and `link`.
        OSError: the kernel's other reasons, such as that the file is there.
    """
    made = PurePosixPath()
    for part in PurePosixPath(name).parent.parts:
        with (
            closing(open_beneath(folder, str(made), FOLDER, follow=False)) as above,
            suppress(FileExistsError),
        ):
            os.mkdir(part, dir_fd=above)
        made /= part
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return open_beneath(folder, name, flags, follow=False, mode=mode)


def _openat2(folder: int, name: str, flags: int, resolve: int, mode: int = 0) -> int:
    how = struct.pack("QQQ", flags, mode, resolve)
    path = os.fsencode(name)
    code = 0
    for _ in range(_TRIES):
        fd: int = _libc().syscall(_OPENAT2, folder, path, how, len(how))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), name)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _walk(folder: int, name: str, flags: int, mode: int) -> int:
    """Open one part after the other and follow no link, so `..` is what it looks like."""
    parts: list[str] = []
    for part in PurePosixPath(name).parts:
        if part == "/" or (part == ".." and not parts):
            raise _outside(name)
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    current = os.open(".", FOLDER, dir_fd=folder)
    for position, part in enumerate(parts or ["."], start=1):
        wanted = flags if position >= len(parts) else FOLDER
        with closing(current):
            current = _step(current, part, wanted, name, mode)
    return current


def _step(folder: int, part: str, flags: int, name: str, mode: int) -> int:
    try:
        fd = os.open(part, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    except OSError as error:
        # A link where a folder is wanted is reported as no folder.
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(part, folder)):
            raise _link(name) from error
        raise
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise _link(name)
    return fd


def _is_link(part: str, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)


def _outside(name: str) -> RefusedError:
    return RefusedError("outside", f"`{shown(name)}` leads out of the folder it has to stay in.")


def _link(name: str) -> RefusedError:
    return RefusedError(
        "link", f"`{shown(name)}` goes through a symbolic link. Name the file it stands for."
    )
