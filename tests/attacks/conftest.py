"""What the attacks share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from attacks.machine import Machine


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow attacks but every n-th, if `SLOW_ATTACKS_EVERY` is n: CI runs a sample."""
    every = int(os.environ.get("SLOW_ATTACKS_EVERY", "1"))
    folder = Path(__file__).parent
    slow = [
        item
        for item in items
        if item.path.is_relative_to(folder) and item.get_closest_marker("slow")
    ]
    left_out = {item for number, item in enumerate(slow) if number % every}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def machine(tmp_path: Path, compiled: Path) -> Machine:
    """A user's machine with an empty project."""
    return Machine(tmp_path, compiled)
