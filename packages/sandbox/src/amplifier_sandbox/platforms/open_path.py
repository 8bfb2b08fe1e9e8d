"""The path of an open file or folder, as the system itself spells it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["path_of"]


def path_of(descriptor: int) -> Path | None:
    """Return the path of what is open; None where the system does not provide it.

    On a file system that ignores the case of letters, it is the spelling on the disk.
    """
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - not on every platform

        # The kernel writes at most MAXPATHLEN bytes.
        found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
        return Path(os.fsdecode(found.rstrip(b"\0")))
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:
        return None
