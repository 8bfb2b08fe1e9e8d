"""A project on a user's machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolchains.indexes import Indexes, find_indexes
from toolchains.layouts import LAYOUTS, Layout
from toolchains.registry import Registry
from toolchains.user_home import SYSTEM, UserHome

_OF_MANAGERS = (
    "CARGO_HOME",
    "CONDA_PREFIX",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "RUSTUP_HOME",
    "VIRTUAL_ENV",
)


@pytest.fixture(scope="session")
def indexes() -> Indexes:
    """The indexes of this machine; found before a test has another home folder."""
    return find_indexes()


@pytest.fixture(params=LAYOUTS)
def layout(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Layout:
    """A project, and this process as if its user had started it."""
    built = LAYOUTS[request.param](UserHome(tmp_path / "user"), tmp_path / "user" / "project")
    for name in _OF_MANAGERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", SYSTEM)
    for name, value in built.home.environment.items():
        monkeypatch.setenv(name, value)
    return built


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry of crates and Go modules on this machine."""
    with Registry() as served:
        yield served
