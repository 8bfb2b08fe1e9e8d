"""The files of an untrusted folder and their content, read within limits."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from amplifier_foundation.config.plain_files import open_plain
from amplifier_foundation.errors import TrustError

__all__ = ["UNVERIFIABLE", "Contents", "Taken", "link_digest"]

# The digest of what has no content to compare: a link to a folder, a device, an unreadable file.
UNVERIFIABLE = "cannot be verified"

# Counts instead of a deadline: whether a folder can be trusted must not depend on the machine.
_MAX_FILES = 5_000
_MAX_BYTES = 100_000_000
_MAX_FOLDERS = 20_000
_MAX_DEPTH = 100
_BLOCK = 1 << 20
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


class Taken(NamedTuple):
    """What was read of a file: its digest, and the first of its bytes if they were asked for."""

    digest: str
    data: bytes = b""


class Contents:
    """Reads one project; the limits apply to all calls together."""

    def __init__(self, project: Path, home: Path) -> None:
        self._project = project
        self._home = _identity(home)
        self._files = 0
        self._folders = 0
        self._bytes = 0

    def files(self, path: Path) -> Iterator[Path]:
        """Yield a file, or those of a folder and the folders in it; links are not followed.

        A folder that cannot be read, or is too deep, is yielded itself. It cannot be verified as
        a file, so what is in it is not skipped silently.
        """
        # Not recursive: a clone with 1,400 nested folders would end in a RecursionError.
        waiting = [(path, 0)]
        while waiting:
            each, depth = waiting.pop()
            try:
                status = each.lstat()
            except ValueError:
                continue
            except OSError as error:
                if error.errno not in _NOT_THERE:
                    yield each
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield each
                continue
            # The user's own folder may be in a project, and does not belong to it.
            if each.name == ".git" or (status.st_dev, status.st_ino) == self._home:
                continue
            names = self._names_in(each) if depth < _MAX_DEPTH else None
            if names is None:
                yield each
            else:
                waiting += [(each / name, depth + 1) for name in reversed(names)]

    def take(self, path: Path, *, keep: int = 0) -> Taken:
        """Return the digest of a file, and up to `keep` + 1 of its bytes.

        Raises:
            TrustError: all files together are too many, or too large.
        """
        self._files += 1
        if self._files > _MAX_FILES or self._bytes > _MAX_BYTES:
            raise self._too_large()
        try:
            if not path.is_symlink():
                return self._read(path, keep)
            taken = self._read(path.resolve(), keep)
            return taken._replace(digest=link_digest(path, taken.digest))
        # RuntimeError: a loop of links, before Python 3.13.
        except (OSError, RuntimeError, ValueError):
            return Taken(UNVERIFIABLE)

    def _names_in(self, folder: Path) -> list[str] | None:
        self._folders += 1
        if self._folders > _MAX_FOLDERS:
            raise self._too_large()
        names: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    names.append(entry.name)
                    if len(names) > _MAX_FOLDERS + _MAX_FILES:
                        raise self._too_large()
        except OSError:
            return None
        return sorted(names)

    def _read(self, path: Path, keep: int) -> Taken:
        digest = hashlib.sha256()
        data = b""
        with open_plain(path) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                self._bytes += len(block)
                if self._bytes > _MAX_BYTES:
                    return Taken(UNVERIFIABLE)
                if len(data) <= keep:
                    data += block[: keep + 1 - len(data)]
        return Taken(digest.hexdigest(), data)

    def _too_large(self) -> TrustError:
        return TrustError(
            f"`{self._project}` is too large to be trusted.",
            why=f"More than {_MAX_FILES:,} files, {_MAX_FOLDERS:,} folders or {_MAX_BYTES:,} bytes "
            "could act.",
            fix="make it smaller, then: amplifier trust",
        )


def link_digest(link: Path, content: str) -> str:
    """Return the digest of a link, of both its target and the content there."""
    if content == UNVERIFIABLE:
        return UNVERIFIABLE
    return hashlib.sha256(os.fsencode(link.readlink()) + b"\0" + content.encode()).hexdigest()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
