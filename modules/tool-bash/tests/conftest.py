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


@pytest.fixture
def coordinator() -> MockCoordinator:
    return MockCoordinator()


@pytest.fixture
async def mounted(
    workspace: Path, coordinator: MockCoordinator, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Mounted]:
    """Mounts the tool with a configuration; the environment around it holds a secret."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("HARMLESS_NAME", "harmless value")
    cleanups: list[Callable[[], None]] = []

    async def mount_with(**config: Any) -> BashTool:
        cleanups.append(await mount(coordinator, {"working_dir": str(workspace), **config}))
        return coordinator.get_mounted("tools")["bash"]

    yield mount_with
    for cleanup in cleanups:
        cleanup()


@pytest.fixture
async def bash(mounted: Mounted) -> Callable[..., Awaitable[ToolResult]]:
    """Runs one command in a tool with the default configuration."""
    tool = await mounted()

    async def run(command: str, **more: Any) -> ToolResult:
        async with asyncio.timeout(120):
            return await tool.execute({"command": command, **more})

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
