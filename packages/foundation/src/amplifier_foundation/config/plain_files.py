"""Opening files that somebody else may have put there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_plain"]


def open_plain(path: Path) -> BinaryIO:
    """Open a file to read it; raises OSError for what is none: folders, pipes, devices."""
    # Whoever opens a pipe to read it may wait for ever, unless they say that they will not.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "It is not a plain file", str(path))
    return os.fdopen(fd, "rb")
