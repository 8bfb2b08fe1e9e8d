"""A workspace, and a way to run something in a sandbox and read what it said."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_sandbox.processes.sandbox import Sandbox

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def run(workspace: Path) -> Run:
    """Runs a shell script in a sandbox, in the workspace."""

    def run_in(sandbox: Sandbox, script: str, **options: Any) -> subprocess.CompletedProcess[str]:
        argv = ["/bin/bash", "-c", script]
        with sandbox.command(argv, workspace=workspace, **options) as launch:
            return subprocess.run(
                launch.argv,
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=launch.cwd,
                env=launch.env,
                pass_fds=launch.pass_fds,
                text=True,
                timeout=20,
            )

    return run_in


@pytest.fixture(scope="session")
def bubblewrap() -> Sandbox:
    found = Sandbox.detect()
    assert found.level == "bubblewrap", "these tests need bubblewrap: apt-get install bubblewrap"
    return found


@pytest.fixture(scope="session")
def landlock() -> Sandbox:
    found = Sandbox.detect(folders=())
    assert found.level == "landlock", "these tests need a kernel with Landlock"
    return found
