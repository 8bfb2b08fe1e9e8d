"""Finding the programs that this process starts outside of any sandbox.

PATH may name folders of the workspace, as an activated environment does, and a program in them may
have come with the workspace or from a tool.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

# Only the system's installer writes here, so these count even if a workspace contains them.
_SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin")


def find_program(name: str, *workspaces: Path) -> str | None:
    """Return the path of a program from PATH that is in none of `workspaces`.

    Without `workspaces`, the current folder is one.
    """
    avoided = _avoided(workspaces)
    for folder in search_folders(*workspaces):
        program = Path(folder, name)
        is_apart = folder in _SYSTEM_FOLDERS or not _is_in(os.path.realpath(program), avoided)
        # PATH may name folders that this user may not read, for which `is_file` alone raises.
        if is_apart and os.access(program, os.X_OK) and program.is_file():
            return str(program)
    return None


def is_roots_program(path: Path) -> bool:
    """Whether a program is there that only root can have installed."""
    try:
        found = path.stat()
    except OSError:
        return False
    is_roots = found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_roots and os.access(path, os.X_OK)


def search_folders(*workspaces: Path) -> list[str]:
    """Return the folders of PATH for a child process: absolute, and in none of `workspaces`."""
    avoided = _avoided(workspaces)
    return [
        folder
        for folder in os.get_exec_path()
        if folder in _SYSTEM_FOLDERS or (folder.startswith("/") and not _is_in(folder, avoided))
    ]


def _avoided(workspaces: tuple[Path, ...]) -> list[str]:
    return [os.path.realpath(each) for each in workspaces or (Path.cwd(),)]


def _is_in(path: str, folders: list[str]) -> bool:
    # As written and resolved, because a link in a workspace can be replaced.
    spellings = (os.path.abspath(path), os.path.realpath(path))  # noqa: PTH100 - keeps links
    return any(
        Path(spelling).is_relative_to(folder) for spelling in spellings for folder in folders
    )
