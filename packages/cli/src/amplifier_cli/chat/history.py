"""What was typed before, in a file that is for its owner alone."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit.history import FileHistory


class PrivateHistory(FileHistory):
    """prompt_toolkit's history, in a file that nobody else can read from its first byte on."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
        super().__init__(str(path))
