"""What the tests of the command share: the command itself, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]

_KEYS = ("API_KEY", "BASE_URL", "TOKEN")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's own folder of this test."""
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder that the command is started in."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(home: Path, compiled: Path) -> dict[str, str]:
    """An environment without keys, whose person has a folder of this test."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(_KEYS)}
    # What measures the coverage of subprocesses would be measured with them.
    kept = {name: value for name, value in kept.items() if not name.startswith("COVERAGE_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    own = {"AMPLIFIER_HOME": str(home), "HOME": str(home.parent), "NO_COLOR": "1"}
    return {**kept, **own, "PYTHONPYCACHEPREFIX": str(compiled)}


@pytest.fixture
def amplifier(project: Path, environment: dict[str, str]) -> Command:
    """Run `amplifier` with arguments, as a shell would."""

    def run(
        *arguments: str,
        stdin: str = "",
        cwd: Path = project,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "amplifier_cli", *arguments],
            input=stdin,
            cwd=cwd,
            env={**environment, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
