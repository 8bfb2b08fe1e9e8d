"""Empty folders and files without effect in the place of protected paths that do not exist.

A path can be made read-only only when something is there. An empty folder is the least: git takes
no notice of an empty `.git`, and removing it cannot remove anybody's work. Where git reads a file,
there is a file that says nothing.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

# Made by this process and not yet removed; the last program that leaves one removes it.
_made: set[Path] = set()


class Placeholder:
    """One program's share in an empty folder, or in a file; it goes with the last share.

    The share is a lock, so that another process, or another program of this one, does not lose the
    folder beneath its read-only mount: removing a mount point takes the mount away.
    """

    __slots__ = ("_content", "_descriptor", "_path")

    def __init__(self, path: Path, content: bytes | None = None) -> None:
        """Make a file of `content`, or a folder when that is None, unless something is there."""
        self._path = path
        self._content = content
        self._descriptor = -1
        kind = os.O_DIRECTORY if content is None else 0
        while self._descriptor < 0:
            with suppress(FileExistsError):
                self._make()
                _made.add(path)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind)
            except FileNotFoundError:
                continue
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_at(descriptor, path):
                self._descriptor = descriptor
            else:
                os.close(descriptor)

    def release(self) -> None:
        """Give the share back; remove the folder when nobody else has one."""
        if self._descriptor < 0:
            return
        descriptor = self._descriptor
        self._descriptor = -1
        try:
            if self._path in _made:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _made.discard(self._path)
                self._remove()
        except OSError:
            # Still shared, or no longer empty and so not ours to remove.
            return
        finally:
            os.close(descriptor)

    def _make(self) -> None:
        if self._content is None:
            self._path.mkdir()
            return
        # Written elsewhere first: whoever reads it in between must not find half of it.
        unfinished = self._path.with_name(f".{secrets.token_hex(8)}.unfinished")
        unfinished.write_bytes(self._content)
        try:
            self._path.hardlink_to(unfinished)
        finally:
            unfinished.unlink()

    def _remove(self) -> None:
        if self._content is None:
            self._path.rmdir()
        elif self._path.read_bytes() == self._content:
            self._path.unlink()


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open folder is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
