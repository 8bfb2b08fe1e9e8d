"""Where the log of a session lies."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from amplifier_module_hooks_logging.config import SESSION

FILE_NAME = "events.jsonl"


def log_path(coordinator: Any, configured: str | None) -> Path:
    """Return the configured file, else one named after the working folder and the session."""
    told: Any = coordinator.get_capability("session.working_dir")
    working_dir = Path(told) if told else Path.cwd()
    # A session id comes from outside; it must name one folder, and no other.
    session = re.sub(r"[^\w.-]", "_", coordinator.session_id).lstrip(".") or "_"
    if configured is not None:
        return working_dir / Path(configured.replace(SESSION, session)).expanduser()
    digest = hashlib.sha256(str(working_dir).encode()).hexdigest()
    project = Path.home() / ".amplifier" / "projects" / f"{working_dir.name}-{digest[:8]}"
    return project / "sessions" / session / FILE_NAME
