"""Where a session's conversation lies when the configuration does not say."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

FILE_NAME = "context-messages.jsonl"


def log_path(coordinator: Any, configured: Path | None) -> Path:
    """Return the configured file, else one named after the working folder and the session."""
    told: Any = coordinator.get_capability("session.working_dir")
    working_dir = Path(told) if told else Path.cwd()
    if configured is not None:
        return working_dir / configured.expanduser()
    digest = hashlib.sha256(str(working_dir).encode()).hexdigest()
    project = Path.home() / ".amplifier" / "projects" / f"{working_dir.name}-{digest[:8]}"
    # A session id comes from outside; it must name one folder, and no other.
    session = re.sub(r"[^\w.-]", "_", coordinator.session_id).lstrip(".") or "_"
    return project / "sessions" / session / FILE_NAME
