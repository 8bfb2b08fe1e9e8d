"""What the tests of hooks-logging share: a home of their own, and sessions that write logs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_logging import mount, on_session_ready


class Screen:
    """What a person sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{level}: {message}")


class Harness:
    """A session that is logged."""

    def __init__(self, coordinator: MockCoordinator, path: Path, log: Any) -> None:
        self.coordinator = coordinator
        self.hooks = coordinator.hooks
        self.path = path
        self.log = log
        self.screen = Screen()
        coordinator.display_system = self.screen

    async def close(self) -> None:
        """End the session: everything is written after this."""
        await self.log.stop()

    def records(self, path: Path | None = None) -> list[dict[str, Any]]:
        """Return what is in the log."""
        lines = (path or self.path).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the data of every record of one event."""
        return [each["data"] for each in self.records() if each["event"] == event]


Open = Callable[..., Awaitable[Harness]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder for each test: nothing is written to the real one."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest_asyncio.fixture
async def open_log(tmp_path: Path) -> AsyncGenerator[Open]:
    """Opens logs with configurations of the test's choice, and closes them."""
    opened: list[Harness] = []

    async def open_one(coordinator: MockCoordinator | None = None, **config: Any) -> Harness:
        coordinator = coordinator or MockCoordinator()
        config.setdefault("path", f"{tmp_path}/logs/{{session_id}}/events.jsonl")
        stop: Any = await mount(coordinator, config)
        await on_session_ready(coordinator)
        harness = Harness(coordinator, stop.__self__.path, stop.__self__)
        opened.append(harness)
        return harness

    yield open_one
    for harness in opened:
        await harness.close()
