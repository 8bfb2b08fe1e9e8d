"""The folder that confined programs of a project have as their home, which outlives them."""

from __future__ import annotations

import stat
from pathlib import Path

from amplifier_sandbox.platforms.users import is_users
from amplifier_sandbox.processes.limits import SandboxError

_OWNER_ONLY = stat.S_IRWXU


def prepared_home(folder: Path) -> Path:
    """Create a home if it is missing, closed to other users; return its real path.

    Confined programs write whatever they want into it, so nothing outside of a sandbox may read it
    as settings or run anything from it.

    Raises:
        SandboxError: it cannot be created, or is not this user's own folder.
    """
    try:
        folder.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or not is_users(folder, status):
            raise SandboxError(
                f"`{folder}`, the home of commands, is not a folder of yours; remove it"
            )
        # A program inside can change the mode of its home.
        if stat.S_IMODE(status.st_mode) != _OWNER_ONLY:
            folder.chmod(_OWNER_ONLY)
    except OSError as error:
        raise SandboxError(f"the home of commands cannot be made: {error}") from error
    return folder.resolve()
