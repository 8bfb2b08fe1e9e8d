"""Where a session keeps its files: one folder for each, below the project's."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from amplifier_kit.valid_text import valid_text
from amplifier_sandbox.home import amplifier_home


def working_folder(coordinator: Any) -> Path:
    """Return the folder the session works in: as the app says, else this process's."""
    told: Any = coordinator.get_capability("session.working_dir")
    return Path(told) if told else Path.cwd()


def folder_name(session_id: str) -> str:
    """Return a session id, which comes from outside, as the name of one folder and no other."""
    return re.sub(r"[^\w.-]", "_", session_id).lstrip(".") or "_"


def project_name(project: Path) -> str:
    """Return a name for what is kept of a project: readable, and no other project's."""
    digest = hashlib.sha256(os.fsencode(project)).hexdigest()
    # The digest is of the bytes; a name that is no text would be one that no index takes.
    return f"{valid_text(project.name)}-{digest[:8]}"


def session_folder(coordinator: Any) -> Path:
    """Return the session's folder: as the app says, else one named after the working folder."""
    told: Any = coordinator.get_capability("session.folder")
    if told:
        return Path(told)
    project = amplifier_home() / "projects" / project_name(working_folder(coordinator))
    return project / "sessions" / folder_name(coordinator.session_id)
