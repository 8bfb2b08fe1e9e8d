"""What the tests of tool-filesystem share: a workspace, a secret beside it, and mounted tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from amplifier_core.models import ToolResult
from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_module_files.tool_filesystem import mount

Call = Callable[..., Awaitable[ToolResult]]
ANNOUNCED = ("artifact:read", "artifact:write", "files:undone")


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
        for event in ANNOUNCED:
            self.coordinator.hooks.register(event, self.recorder.record)

    async def start(self, **config: Any) -> None:
        """Mount it as a session does."""
        await mount(self.coordinator, config)

    async def call(self, tool: str, **given: Any) -> ToolResult:
        """Call a tool as a loop does."""
        return await self.coordinator.get_mounted("tools")[tool].execute(given)

    async def begin_turn(self) -> None:
        """Announce a turn as a loop does."""
        await self.coordinator.hooks.emit("execution:start", {"prompt": "go on"})
        await self.coordinator.hooks.emit("prompt:submit", {"prompt": "go on"})

    @property
    def checkpoints(self) -> Any:
        """The capability."""
        return self.coordinator.get_capability("files.checkpoints")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder for each test: nothing is written to the real one."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest_asyncio.fixture
async def mounted(work: Path) -> Mounted:
    """The module, mounted with its defaults."""
    made = Mounted(work)
    await made.start()
    return made


@pytest.fixture
def call(mounted: Mounted) -> Call:
    """Call a tool of the mounted module."""
    return mounted.call
