"""What the tests of tool-search share: a workspace, a secret beside it, and mounted tools."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from amplifier_core.models import ToolResult
from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_module_files.tool_search import mount, on_session_ready


class Screen:
    """What a person sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source} {level}: {message}")


class Mounted:
    """The module in a session of its own."""

    def __init__(self, work: Path) -> None:
        self.coordinator = MockCoordinator()
        self.coordinator.register_capability("session.working_dir", str(work))
        self.screen = self.coordinator.display_system = Screen()
        self.recorder = EventRecorder()
        for event in ("search:degraded", "search:incomplete"):
            self.coordinator.hooks.register(event, self.recorder.record)

    async def start(self, **config: Any) -> None:
        """Mount it as a session does."""
        await mount(self.coordinator, config)
        await on_session_ready(self.coordinator)

    async def call(self, tool: str, **given: Any) -> ToolResult:
        """Call a tool as a loop does."""
        return await self.coordinator.get_mounted("tools")[tool].execute(given)

    async def lines(self, tool: str, **given: Any) -> list[str]:
        """Return the lines of a result, without those about it."""
        result = await self.call(tool, **given)
        assert result.success, result.error
        return [line for line in str(result.output).split("\n") if not line.startswith("[")]


Start = Callable[..., Awaitable[Mounted]]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the working folder that nobody may see."""
    path = tmp_path / "secret.txt"
    path.write_text("needle secret\n", encoding="utf-8")
    return path


@pytest.fixture(params=["ripgrep", "python"])
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The program that matches lines; without a path to look in there is no ripgrep."""
    if request.param == "python":
        monkeypatch.setenv("PATH", "/nonexistent")
    elif shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    return request.param


@pytest.fixture
def start(work: Path) -> Start:
    """Mount the module with a configuration."""

    async def start(**config: Any) -> Mounted:
        made = Mounted(work)
        await made.start(**config)
        return made

    return start


@pytest_asyncio.fixture
async def mounted(start: Start, program: str) -> Mounted:
    """The module, mounted with its defaults, once with each program."""
    return await start()


@pytest.fixture
def write(work: Path) -> Callable[..., Path]:
    """Write a file of the working folder."""

    def write(name: str, text: str = "needle\n") -> Path:
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write
