"""The folder of the user's own keys, settings and logs, which no confined program may reach."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["amplifier_home", "expanded"]

_HOME = Path("~/.amplifier")


def amplifier_home() -> Path:
    """Return the user's own folder: `$AMPLIFIER_HOME`, else `~/.amplifier`."""
    return Path(os.environ.get("AMPLIFIER_HOME") or _HOME).expanduser()


def expanded(path: Path) -> Path:
    """Expand the `~` of a path; `~/.amplifier/...` is in `amplifier_home()`, wherever that is."""
    if path.is_relative_to(_HOME):
        return amplifier_home() / path.relative_to(_HOME)
    return path.expanduser()
