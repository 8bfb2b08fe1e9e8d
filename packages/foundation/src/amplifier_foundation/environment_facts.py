"""What the model is told of where it works: the folder, the date, the system and the branch."""

from __future__ import annotations

import platform
import re
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["environment_facts"]

_HEAD_BYTES = 300
# A branch of another shape is left out: its name is text of the repository in a system message.
_BRANCH = re.compile(r"ref: refs/heads/([\w./+-]{1,100})\n?")
_COMMIT = re.compile(r"([0-9a-f]{40,64})\n?")
_GITDIR = re.compile(r"gitdir: (.+?)\n?")


def environment_facts(project: Path, *, here: Path, with_git: bool) -> str:
    """Return a part of the system message; `here` is the folder that the user is in.

    Nothing is run for it: git would run what the configuration of a repository names.
    """
    system = platform.uname()
    lines = [f"Folder: {project}"]
    if here != project and here.is_relative_to(project):
        lines.append(f"The user is in: {here.relative_to(project)}")
    lines.append(f"Date: {datetime.now(UTC).astimezone():%Y-%m-%d}")
    lines.append(f"System: {system.system} {system.release} on {system.machine}")
    if with_git:
        lines.append(f"Git: {_git_state(project)}")
    return "\n".join(["When this session began:", *(f"- {line}" for line in lines)])


def _git_state(project: Path) -> str:
    """Return the branch or the commit that is checked out, as far as a file says it."""
    folder = project / ".git"
    link = _GITDIR.fullmatch(_first_bytes(folder))
    if link is not None:
        # A worktree or a submodule.
        folder = project / link[1]
    head = _first_bytes(folder / "HEAD")
    if branch := _BRANCH.fullmatch(head):
        return f"branch {branch[1]}"
    if commit := _COMMIT.fullmatch(head):
        return f"no branch, at commit {commit[1][:12]}"
    if folder.is_dir():
        return "a repository"
    return "no repository"


def _first_bytes(path: Path) -> str:
    try:
        # A pipe or a device in the place of the file is not waited for.
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
