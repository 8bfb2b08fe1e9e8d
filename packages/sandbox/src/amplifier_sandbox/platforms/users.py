"""Who the user is, and which files are theirs.

Windows has lists of rights in the place of owners and modes, and Python does not read them. What is
in the user's profile counts as theirs, because Windows closes that folder to other users; nothing
else does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import pwd

__all__ = ["home_of_account", "in_profile", "is_administrator", "is_users"]


def is_users(path: Path, status: os.stat_result) -> bool:
    """Whether a file or folder belongs to the user of this process."""
    if sys.platform == "win32":
        return in_profile(path)
    return status.st_uid == os.geteuid()


def in_profile(path: Path) -> bool:
    """Whether a path is in the home folder, by its real place; False without a home."""
    try:
        home = os.path.realpath(Path.home())
    except RuntimeError:
        return False
    return Path(os.path.realpath(path)).is_relative_to(home)


def is_administrator() -> bool:
    """Whether this process is root's, for whom modes of files mean nothing."""
    if sys.platform == "win32":
        return False
    return os.geteuid() == 0


def home_of_account() -> Path | None:
    """Return the home folder that the user database names, whatever HOME says; None if none."""
    if sys.platform == "win32":
        return None
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return None
