"""Where a session keeps its files: one folder for each, below the project's."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any


def working_folder(coordinator: Any) -> Path:
    """Return the folder the session works in: as the app says, else this process's."""
    told: Any = coordinator.get_capability("session.working_dir")
    return Path(told) if told else Path.cwd()


def folder_name(session_id: str) -> str:
    """Return a session id, which comes from outside, as the name of one folder and no other."""
    return re.sub(r"[^\w.-]", "_", session_id).lstrip(".") or "_"


def session_folder(coordinator: Any) -> Path:
    """Return the session's folder, named after the working folder and the session."""
    working = working_folder(coordinator)
    digest = hashlib.sha256(str(working).encode()).hexdigest()
    project = Path.home() / ".amplifier" / "projects" / f"{working.name}-{digest[:8]}"
    return project / "sessions" / folder_name(coordinator.session_id)
