"""The path of a conversation's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplifier_kit.session_folder import session_folder, working_folder

FILE_NAME = "context-messages.jsonl"


def log_path(coordinator: Any, configured: Path | None) -> Path:
    """Return the configured file, else the one in the session's folder."""
    if configured is not None:
        return working_folder(coordinator) / configured.expanduser()
    return session_folder(coordinator) / FILE_NAME
