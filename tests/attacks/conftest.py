"""What the attacks share."""

from __future__ import annotations

from pathlib import Path

import pytest

from attacks.machine import Machine


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled files are kept, as on a machine where the command is installed."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def machine(tmp_path: Path, compiled: Path) -> Machine:
    """A user's machine with an empty project."""
    return Machine(tmp_path, compiled)
