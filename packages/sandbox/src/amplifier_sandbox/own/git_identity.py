"""The name under which the user commits, for commits that a confined program makes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from amplifier_sandbox.own.programs import find_program

_SECONDS = 5


def git_identity(workspace: Path) -> dict[str, str]:
    """Return the variables that give git the user's name and address; empty if there are none.

    The settings of the user are not visible in a sandbox, and may have passwords in them.
    """
    git = find_program("git", workspace)
    if git is None:
        return {}
    name = _setting(git, "user.name", workspace)
    email = _setting(git, "user.email", workspace)
    if not name or not email:
        return {}
    return {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", name), ("EMAIL", email))
    }


def _setting(git: str, key: str, workspace: Path) -> str:
    """Return what git would use in the workspace; reading a setting runs nothing."""
    try:
        done = subprocess.run(
            [git, "config", "--get", key],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=workspace,
            env={"PATH": os.defpath, "HOME": str(Path.home()), "LANG": "C.UTF-8"},
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip()
