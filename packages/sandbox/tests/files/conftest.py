"""What the tests of files beneath a root need: a workspace, and a secret beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Workspace
from linux_masks import mask_path_resolution


@pytest.fixture(params=["openat2", "walk"], autouse=True)
def resolves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the call of the kernel, then one part after the other as macOS needs it."""
    if request.param == "walk":
        mask_path_resolution(monkeypatch)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder of the workspace."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the workspace that nobody may touch."""
    path = tmp_path / "secret.txt"
    path.write_bytes(b"secret")
    return path


@pytest.fixture
def root(work: Path) -> Root:
    """The workspace's folder, open."""
    return Root(work)


@pytest.fixture
def workspace(root: Root) -> Workspace:
    """The workspace."""
    return Workspace(root)
