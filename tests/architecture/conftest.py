"""A small repository to plant violations in, and the tools to find them with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PYPROJECT = """
[tool.amplifier.sizes]
file = 600
function = 80
mechanism = 3200
vocabulary = 2500

[tool.amplifier.words.names]
"""

RunTool = Callable[..., "subprocess.CompletedProcess[str]"]
Plant = Callable[[str, str], None]


@pytest.fixture
def root() -> Path:
    """The top of this repository."""
    return ROOT


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with a `pyproject.toml` and nothing wrong in it."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    return tmp_path


@pytest.fixture
def plant(repository: Path) -> Plant:
    """Write one file into the repository."""

    def write(path: str, text: str) -> None:
        target = repository / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    return write


@pytest.fixture
def run_tool(repository: Path) -> RunTool:
    """Run `tools/check_<name>.py` on a tree, the planted repository unless told otherwise."""

    def run(name: str, tree: Path = repository) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(ROOT / "tools" / f"check_{name}.py"), str(tree)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    return run
