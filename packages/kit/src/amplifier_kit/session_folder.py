"""Where a session keeps its files: one folder per session, inside that of its project."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from amplifier_kit.valid_text import valid_text
from amplifier_sandbox.home import amplifier_home


def working_folder(coordinator: Any) -> Path:
    """Return the session's working folder: the one the app names, else that of this process."""
    told: Any = coordinator.get_capability("session.working_dir")
    return Path(told) if told else Path.cwd()


def folder_name(session_id: str) -> str:
    """Return a session id, which is untrusted input, as the name of a single folder."""
    # Without separators and leading dots, an id such as `../x` cannot name another folder.
    return re.sub(r"[^\w.-]", "_", session_id).lstrip(".") or "_"


def project_name(project: Path) -> str:
    """Return a readable and unique folder name for the data of a project."""
    digest = hashlib.sha256(os.fsencode(project)).hexdigest()
    # The digest is of the raw bytes. The readable part is made valid, because the SQLite index of
    # sessions rejects lone surrogates, which stand for bytes that are not UTF-8.
    return f"{valid_text(project.name)}-{digest[:8]}"


def commands_home(workspace: Path) -> Path:
    """Return the home of the commands that run in a workspace, which sessions share."""
    # Not in `projects`: commands decide what is in it, so no search of ours may come across it.
    return amplifier_home() / "homes" / project_name(workspace)


def session_folder(coordinator: Any) -> Path:
    """Return the session's folder: the one the app names, else one below AMPLIFIER_HOME."""
    told: Any = coordinator.get_capability("session.folder")
    if told:
        return Path(told)
    project = amplifier_home() / "projects" / project_name(working_folder(coordinator))
    return project / "sessions" / folder_name(coordinator.session_id)
