"""What the tests of tool-skills share: a person's folder, a project, and the mounted module."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.models import ToolResult
from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_module_tool_skills import mount, on_session_ready


class Screen:
    """What a person sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source} {level}: {message}")


class Mounted:
    """The module in a session of its own."""

    def __init__(self, project: Path) -> None:
        self.coordinator: Any = MockCoordinator()
        self.coordinator.register_capability("session.working_dir", str(project))
        self.screen = self.coordinator.display_system = Screen()
        self.recorder = EventRecorder()
        for event in ("skill:loaded", "skill:left_out"):
            self.coordinator.hooks.register(event, self.recorder.record)

    async def start(self, **config: Any) -> None:
        """Mount it as a session does."""
        await mount(self.coordinator, config)
        await on_session_ready(self.coordinator)

    async def load(self, name: str, **given: Any) -> ToolResult:
        """Call `load_skill`."""
        return await self.coordinator.get("tools", "load_skill").execute({"name": name, **given})

    async def read(self, name: str, path: str, **given: Any) -> ToolResult:
        """Call `read_skill_file`."""
        tool = self.coordinator.get("tools", "read_skill_file")
        return await tool.execute({"name": name, "path": path, **given})

    @property
    def names(self) -> list[str]:
        """The names that the model is told."""
        lines = self.coordinator.get("tools", "load_skill").description.split("\n")[1:]
        return [line.removeprefix("- ").partition(":")[0] for line in lines]

    @property
    def left_out(self) -> list[str]:
        """The kinds of what was announced as left out."""
        events = self.recorder.events
        return [data["kind"] for event, data in events if event == "skill:left_out"]


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of skills."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "home/.amplifier/skills"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The working folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def start(person: Path, project: Path) -> Callable[..., Awaitable[Mounted]]:
    """Mount the module; `trusted` is what the app says of the project."""

    async def start(*, trusted: Any = None, **config: Any) -> Mounted:
        made = Mounted(project)
        if trusted is not None:
            made.coordinator.register_capability("project.trusted", trusted)
        await made.start(**config)
        return made

    return start


@pytest.fixture
def add() -> Callable[..., Path]:
    """Put a skill into a folder."""

    def add(folder: Path, name: str, description: str = "Helps.", body: str = "Do it.") -> Path:
        (folder / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n"
        (folder / name / "SKILL.md").write_text(text, encoding="utf-8")
        return folder / name

    return add
