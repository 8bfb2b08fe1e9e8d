"""What the tests of shared file access need: a workspace, and a secret beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_module_files.checkpoints import Checkpoints
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Workspace
from linux_masks import mask_path_resolution

Make = Callable[..., Checkpoints]


@pytest.fixture(params=["openat2", "walk"])
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


@pytest.fixture
def open_checkpoints(tmp_path: Path, workspace: Workspace) -> Make:
    """Open the checkpoints of this test as another process would."""

    def make(keep: int = 10) -> Checkpoints:
        return Checkpoints(tmp_path / "store" / "session", workspace, limit=1_000, keep=keep)

    return make
