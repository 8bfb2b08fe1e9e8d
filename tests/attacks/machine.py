"""A user's machine: a home, a project folder, the command, and a model behind the wire."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from end_to_end.model_server import ModelServer

_KEYS = ("API_KEY", "BASE_URL", "TOKEN")


class Machine:
    """The folders of one test and the `amplifier` command in them, each run a process of its own.

    Only the command line and files are used, so that the same test can be run on any version.
    """

    def __init__(self, folder: Path, compiled: Path) -> None:
        self.user_home = folder / "user"
        self.home = self.user_home / ".amplifier"
        self.project = self.user_home / "project"
        self.project.mkdir(parents=True)
        self.home.mkdir(mode=0o700)
        kept = {name: value for name, value in os.environ.items() if not name.endswith(_KEYS)}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment = {
            **{name: value for name, value in kept.items() if not name.startswith("COVERAGE_")},
            "HOME": str(self.user_home),
            "AMPLIFIER_HOME": str(self.home),
            "NO_COLOR": "1",
            "PYTHONPYCACHEPREFIX": str(compiled),
        }

    def use(self, server: ModelServer) -> None:
        """Have every further command find the scripted model."""
        self.environment["OPENAI_BASE_URL"] = server.url

    def write(self, path: str, content: Any) -> Path:
        """Write a file of the project: text, or anything else as YAML (which JSON is)."""
        return write(self.project / path, content)

    def user_settings(self, values: dict[str, Any]) -> None:
        """Write the user's own settings."""
        write(self.home / "settings.yaml", values)

    def project_settings(self, values: dict[str, Any]) -> None:
        """Write the project's settings; they have no effect before `trust()`."""
        self.write(".amplifier/settings.yaml", values)

    def trust(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Trust the project as it is now, without granting any address."""
        return self.amplifier("trust", "grant", "--yes", *arguments)

    def amplifier(
        self, *arguments: str, stdin: str = "", cwd: Path | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run the command as a shell would, without a terminal."""
        return subprocess.run(
            [sys.executable, "-m", "amplifier_cli", *arguments],
            input=stdin,
            cwd=cwd or self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            check=False,
        )


def write(path: Path, content: Any) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path
