"""A workspace with a machine around it, and the tool mounted in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_bash import BashTool, mount
from amplifier_sandbox.processes.bubblewrap import SYSTEM_PATH

SECRET = "sk-witness-7f3a9c"

Mounted = Callable[..., Awaitable[BashTool]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with a repository's hooks in it, beside a file that is none of its business."""
    folder = tmp_path / "workspace"
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "witness").write_text("untouched", "utf-8")
    return folder


@pytest.fixture(autouse=True)
def amplifier_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Keeps the homes of commands out of the folder of the user who runs the tests."""
    # Not in `tmp_path`, which is the workspace of some tests.
    folder = tmp_path_factory.mktemp("amplifier")
    monkeypatch.setenv("AMPLIFIER_HOME", str(folder))
    return folder


@pytest.fixture
def coordinator() -> MockCoordinator:
    return MockCoordinator()


@pytest.fixture
async def mounted(
    workspace: Path, tmp_path: Path, coordinator: MockCoordinator, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Mounted]:
    """Mounts the tool with a configuration; the environment around it holds a secret.

    The user has no toolchains of their own, whatever the machine of the tests has.
    """
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("PATH", SYSTEM_PATH)
    for name in ("CONDA_PREFIX", "GOROOT", "JAVA_HOME", "PYENV_ROOT", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("HARMLESS_NAME", "harmless value")
    cleanups: list[Callable[[], Awaitable[None]]] = []

    async def mount_with(**config: Any) -> BashTool:
        cleanups.append(await mount(coordinator, {"working_dir": str(workspace), **config}))
        return coordinator.get_mounted("tools")["bash"]

    yield mount_with
    for cleanup in cleanups:
        await cleanup()


@pytest.fixture
async def bash(mounted: Mounted) -> Callable[..., Awaitable[ToolResult]]:
    """Runs one command in a tool with the default configuration."""
    tool = await mounted()

    async def run(command: str, **more: Any) -> ToolResult:
        async with asyncio.timeout(120):
            call = {"command": command, **more}
            # As a guard does before every call.
            await tool.widenings(call)
            return await tool.execute(call)

    return run


@pytest.fixture
def processes_of(workspace: Path) -> Callable[[], list[str]]:
    """Lists the command lines of all processes that work in the workspace or name it."""

    def find() -> list[str]:
        found: list[str] = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or folder.name == str(os.getpid()):
                continue
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                works_in = str((folder / "cwd").readlink())
            except OSError:
                continue
            if str(workspace) in line or works_in.startswith(str(workspace)):
                found.append(line)
        return found

    return find
