"""What the tests of bundles share: the settings they are compiled with."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_foundation.settings import Settings, load_settings


@pytest.fixture
def settings(home: Path, project: Path) -> Settings:
    """Settings of a person without any, in a project that is not trusted."""
    return load_settings(project, trusted=False)
