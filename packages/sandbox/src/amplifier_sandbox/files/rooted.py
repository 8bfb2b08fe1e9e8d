"""Files beneath a root, opened by descriptor."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import secrets
import stat
import struct
import sys
import weakref
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from amplifier_sandbox.files.component_walk import FOLDER, PLACE, closing, walk_beneath
from amplifier_sandbox.files.names import RefusedError, require_sound, shown
from amplifier_sandbox.files.own_files import OwnFiles
from amplifier_sandbox.platforms.opening import (
    CLOSE_ON_EXEC,
    NO_FOLLOW,
    NO_TERMINAL,
    NO_WAIT,
    ONLY_FOLDER,
    open_folder,
)

# The same number on every architecture but alpha.
_OPENAT2 = 437
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08
# A path is resolved again (EAGAIN) if a folder on it was moved meanwhile.
_TRIES = 64


@functools.cache
def kernel_resolves_beneath() -> bool:
    """Whether the kernel has `openat2`; old kernels lack it, and some containers forbid it."""
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
    """Open `name` only if every step to it stays beneath `folder`.

    With `follow`, symbolic links that stay beneath it too are followed. `mode` is that of a file
    that `flags` create.

    Raises:
        RefusedError: by the rules `outside` and `link`.
        OSError: the kernel's other reasons.
    """
    flags |= CLOSE_ON_EXEC
    tries = 0
    while True:
        tries += 1
        try:
            if not kernel_resolves_beneath():
                return walk_beneath(folder, name, flags, follow=follow, mode=mode)
            resolve = _BENEATH | _NO_MAGICLINKS | (0 if follow else _NO_SYMLINKS)
            return _openat2(folder, name or ".", flags, resolve, mode)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise _outside(name) from error
            if error.errno == errno.ELOOP:
                raise _link(name) from error
            if error.errno not in (errno.EAGAIN, errno.EINTR) or tries == _TRIES:
                raise


def create_beneath(folder: int, name: str, mode: int = 0o666) -> int:
    """Create a file that does not exist yet, and the folders above it; return its descriptor.

    It does not sync anything to disk.

    Raises:
        RefusedError: by the rules `outside` and `link`.
        OSError: the kernel's other reasons, such as that the file exists.
    """
    made = PurePosixPath()
    for part in PurePosixPath(name).parent.parts:
        with (
            closing(open_beneath(folder, str(made), FOLDER, follow=False)) as above,
            suppress(FileExistsError),
        ):
            os.mkdir(part, dir_fd=above)
        made /= part
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW
    return open_beneath(folder, name, flags, follow=False, mode=mode)


def _openat2(folder: int, name: str, flags: int, resolve: int, mode: int = 0) -> int:
    how = struct.pack("QQQ", flags, mode, resolve)
    fd: int = _libc().syscall(_OPENAT2, folder, os.fsencode(name), how, len(how))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return fd


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _outside(name: str) -> RefusedError:
    return RefusedError("outside", f"`{shown(name)}` leads out of the folder it has to stay in.")


def _link(name: str) -> RefusedError:
    return RefusedError(
        "link", f"`{shown(name)}` goes through a symbolic link. Name the file it stands for."
    )


_READ = os.O_RDONLY | NO_WAIT | NO_TERMINAL
_READ_FOLDER = os.O_RDONLY | ONLY_FOLDER
_CHUNK = 1 << 20
# All of a mode but the set-user-ID and set-group-ID bits.
_KEPT_MODE = 0o1777
# The errors of file systems without hard links.
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class Entry(NamedTuple):
    """One entry of a folder; `status` is its own, not that of a link's target."""

    name: str
    status: os.stat_result


class Anything:
    """Marks a write that may replace any content."""


ANYTHING: Final = Anything()


class Root:
    """An open folder. Names are relative to it; one that leads out of it is refused.

    Reading follows symbolic links that stay inside. Writing follows none, so that the name decides
    which file is written. All methods block, and raise RefusedError or OSError.
    """

    def __init__(self, path: Path, *, writable: bool = True, own: OwnFiles | None = None) -> None:
        """With `own`, the code of this process is not written, and its keys are not read."""
        self.path = Path(os.path.realpath(path))
        self.writable = writable
        self._own = own
        self._given = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links
        self._fd = open_folder(self.path, FOLDER)
        # Closed only when no thread can still use it: the number of a closed descriptor is reused,
        # and a thread would work in another folder.
        weakref.finalize(self, os.close, self._fd)

    def name_of(self, path: PurePosixPath) -> str | None:
        """Return an absolute path relative to this folder; None if it is not inside."""
        for base in (self.path, self._given):
            if path.is_relative_to(base):
                return str(path.relative_to(base))
        return None

    def open_read(self, name: str) -> int:
        """Open a regular file; the caller closes it."""
        require_sound(name)
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        fd = open_beneath(self._fd, name, _READ, follow=True)
        try:
            _require_regular(name, os.fstat(fd))
            self._require_readable(name, fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a regular file, if it has at most `limit` bytes."""
        with closing(self.open_read(name)) as fd:
            return _read_all(name, fd, limit)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a file or folder."""
        require_sound(name)
        with closing(open_beneath(self._fd, name, PLACE, follow=True)) as fd:
            self._require_readable(name, fd)
            return os.fstat(fd)

    def list_dir(self, name: str, limit: int) -> tuple[list[Entry], int]:
        """Return the first entries by name, at most `limit`, and how many there are."""
        require_sound(name)
        with closing(open_beneath(self._fd, name, _READ_FOLDER, follow=True)) as folder:
            self._require_readable(name, folder)
            with os.scandir(folder) as found:
                names = sorted(each.name for each in found)
            entries: list[Entry] = []
            for each in names[:limit]:
                try:
                    status = os.stat(each, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                entries.append(Entry(each, status))
            return entries, len(names)

    def mkdirs(self, name: str, mode: int = 0o777) -> None:
        """Create a folder and its missing parents."""
        self._require_writable(name)
        made = PurePosixPath()
        for part in PurePosixPath(name).parts:
            with closing(self._folder(str(made))) as parent, suppress(FileExistsError):
                os.mkdir(part, mode, dir_fd=parent)
                os.fsync(parent)
            made /= part
        # Fails if the name exists but is not a folder.
        os.close(self._folder(name))

    def write_atomic(
        self,
        name: str,
        data: bytes,
        *,
        replaces: bytes | Anything | None = ANYTHING,
        mode: int = 0o666,
    ) -> None:
        """Write a file atomically and sync it to disk.

        An existing file keeps its mode and owner, except for the set-user-ID and set-group-ID bits;
        a new one gets `mode` less the umask. With `replaces`, the file must still have that
        content, or for None must not exist.
        """
        self._require_writable(name)
        parent, leaf = _split(name)
        with closing(self._folder(parent)) as folder:
            old = _status(folder, leaf)
            _require_replaceable(name, old)
            unfinished = f".{secrets.token_hex(8)}.unfinished"
            try:
                _write_new(folder, unfinished, data, old, mode)
                if replaces is None:
                    _put_in_place(name, folder, unfinished, leaf)
                else:
                    if isinstance(replaces, bytes):
                        self._require_content(name, folder, leaf, replaces)
                    os.replace(unfinished, leaf, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
            os.fsync(folder)

    def unlink(self, name: str, *, replaces: bytes | Anything = ANYTHING) -> None:
        """Remove a regular file, if it has the given content."""
        self._require_writable(name)
        parent, leaf = _split(name)
        with closing(self._folder(parent)) as folder:
            _require_replaceable(name, _status(folder, leaf))
            if isinstance(replaces, bytes):
                self._require_content(name, folder, leaf, replaces)
            os.unlink(leaf, dir_fd=folder)
            os.fsync(folder)

    def rmdir(self, name: str) -> None:
        """Remove an empty folder."""
        self._require_writable(name)
        parent, leaf = _split(name)
        with closing(self._folder(parent)) as folder:
            os.rmdir(leaf, dir_fd=folder)

    def _folder(self, name: str) -> int:
        return open_beneath(self._fd, name, _READ_FOLDER, follow=False)

    def _require_writable(self, name: str) -> None:
        require_sound(name)
        if not self.writable:
            raise RefusedError(
                "read_only", f"`{shown(name)}` is in `{self.path}`, which may only be read."
            )
        if self._own is not None:
            self._own.require_writable(name)

    def _require_readable(self, name: str, fd: int) -> None:
        if self._own is not None:
            self._own.require_readable(name, fd)

    def _require_content(self, name: str, folder: int, leaf: str, content: bytes) -> None:
        try:
            fd = open_beneath(folder, leaf, _READ, follow=False)
        except FileNotFoundError:
            raise _changed(name) from None
        with closing(fd):
            if os.fstat(fd).st_size != len(content) or _read_all(name, fd, len(content)) != content:
                raise _changed(name)


def _split(name: str) -> tuple[str, str]:
    path = PurePosixPath(name)
    if path.name in ("", ".."):
        raise RefusedError("name", f"`{shown(name)}` is not the name of a file.")
    return str(path.parent), path.name


def _status(folder: int, leaf: str) -> os.stat_result | None:
    try:
        return os.stat(leaf, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _require_replaceable(name: str, status: os.stat_result | None) -> None:
    if status is None:
        return
    if stat.S_ISLNK(status.st_mode):
        raise RefusedError(
            "link", f"`{shown(name)}` is a symbolic link. Name the file it stands for."
        )
    _require_regular(name, status)
    # A rename needs no write permission on the file, so a read-only mark is checked here.
    if not status.st_mode & 0o222:
        raise RefusedError("read_only", f"`{shown(name)}` is marked as read-only.")


def _require_regular(name: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise RefusedError("kind", f"`{shown(name)}` is a folder, not a file.")
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError("kind", f"`{shown(name)}` is a pipe, socket or device, not a file.")


def _read_all(name: str, fd: int, limit: int) -> bytes:
    # The size may be wrong, as it is for files in /proc, so the bytes are counted as well.
    size = os.fstat(fd).st_size
    chunks = list[bytes]()
    count = 0
    while count <= limit and size <= limit:
        chunk = os.read(fd, min(_CHUNK, limit + 1 - count))
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        count += len(chunk)
    raise RefusedError(
        "size", f"`{shown(name)}` has {max(size, count):,} bytes; the limit is {limit:,}."
    )


def _write_new(folder: int, name: str, data: bytes, old: os.stat_result | None, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | CLOSE_ON_EXEC
    # A replacement is private until it has the owner and mode of the old file.
    fd = os.open(name, flags, mode & _KEPT_MODE if old is None else 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        if old is not None and sys.platform != "win32":
            own = os.fstat(fd)
            if (old.st_uid, old.st_gid) != (own.st_uid, own.st_gid):
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, old.st_mode & _KEPT_MODE)
        os.fsync(fd)


def _put_in_place(name: str, folder: int, unfinished: str, leaf: str) -> None:
    """Give a new file its name, unless another file took it meanwhile."""
    try:
        # A hard link, because a rename would silently replace that file.
        os.link(unfinished, leaf, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise _changed(name) from None
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS or _status(folder, leaf) is not None:
            raise
        os.replace(unfinished, leaf, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(unfinished, dir_fd=folder)


def _changed(name: str) -> RefusedError:
    return RefusedError("changed", f"`{shown(name)}` was changed in this moment. Read it again.")
