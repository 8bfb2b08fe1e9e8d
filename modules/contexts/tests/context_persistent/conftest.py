"""What the tests of context-persistent share: files of their own, and contexts opened on them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_module_contexts.context_persistent import (
    PersistentContextManager,
    mount,
    on_session_ready,
)

Open = Callable[..., Awaitable[PersistentContextManager]]

ANNOUNCED = (
    "context:recovered",
    "context:sync_failed",
    "context:spilled",
    "context:compaction",
    "context:tool_taken",
    "context:blanked",
)


class Screen:
    """What a person sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{level}: {message}")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder for each test: nothing is written to the real one."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of this test's conversation."""
    return tmp_path / "conversation.jsonl"


@pytest.fixture
def recorder() -> EventRecorder:
    """Hears everything that the contexts of this test announce."""
    return EventRecorder()


@pytest.fixture
def screen() -> Screen:
    """Shows everything that the contexts of this test say to a person."""
    return Screen()


@pytest_asyncio.fixture
async def open_context(path: Path, recorder: EventRecorder, screen: Screen) -> AsyncGenerator[Open]:
    """Mount the module on the file as a session would; `close` ends it, and so does the test."""
    cleanups: list[Callable[[], Awaitable[None]]] = []

    async def make(**config: Any) -> PersistentContextManager:
        coordinator = MockCoordinator()
        coordinator.display_system = screen
        for event in ANNOUNCED:
            coordinator.hooks.register(event, recorder.record)
        cleanups.append(await mount(coordinator, {"path": str(path), **config}))
        await on_session_ready(coordinator)
        return coordinator.get_mounted("context")

    yield make
    for cleanup in cleanups:
        await cleanup()
