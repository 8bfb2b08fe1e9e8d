"""Empty folders that hold the place of protected paths which do not exist, while programs run.

A path can be made read-only only when something is there. An empty folder is the least: git takes
no notice of an empty `.git`, and removing it cannot remove anybody's work.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

# Made by this process and not yet removed; the last program that leaves one removes it.
_made: set[Path] = set()


class Placeholder:
    """One program's share in an empty folder; the folder goes with the last share.

    The share is a lock, so that another process, or another program of this one, does not lose the
    folder beneath its read-only mount: removing a mount point takes the mount away.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        while self._descriptor < 0:
            with suppress(FileExistsError):
                path.mkdir()
                _made.add(path)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
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
        descriptor, self._descriptor = self._descriptor, -1
        try:
            if self._path in _made:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _made.discard(self._path)
                self._path.rmdir()
        except OSError:
            # Still shared, or no longer empty and so not ours to remove.
            return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open folder is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
