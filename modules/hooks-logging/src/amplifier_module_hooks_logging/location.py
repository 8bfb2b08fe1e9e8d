"""Where the log of a session lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplifier_kit.session_folder import folder_name, session_folder, working_folder
from amplifier_module_hooks_logging.config import SESSION

FILE_NAME = "events.jsonl"


def log_path(coordinator: Any, configured: str | None) -> Path:
    """Return the configured file, else the one in the session's folder."""
    if configured is None:
        return session_folder(coordinator) / FILE_NAME
    named = configured.replace(SESSION, folder_name(coordinator.session_id))
    return working_folder(coordinator) / Path(named).expanduser()
