"""What the tests of hooks-redaction share: a session with an observer that keeps what it hears."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from amplifier_core.models import HookResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_redaction import mount, on_session_ready

STREAMED = ["llm:stream_block_delta", "llm:stream_block_end", "tool:output"]


class Screen:
    """What a person sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{level}: {message}")


class Harness:
    """A session with the module, and an observer that was there before it."""

    def __init__(self) -> None:
        self.coordinator = MockCoordinator()
        self.hooks = self.coordinator.hooks
        self.screen = Screen()
        self.coordinator.display_system = self.screen
        self.heard: list[tuple[str, Any]] = []
        self.coordinator.register_contributor("observability.events", "test", STREAMED.copy)
        self.stop: Any = None

    async def emit(self, event: str, data: Any) -> HookResult:
        """Announce something as a loop does, and carry out what the hooks want."""
        self.watch(event)
        result = await self.hooks.emit(event, data)
        return await self.coordinator.process_hook_result(result, event, "loop")

    def told(self, event: str) -> list[Any]:
        """Return what the observer heard of one event."""
        return [data for name, data in self.heard if name == event]

    @property
    def everything(self) -> str:
        """All that the observer heard."""
        return json.dumps(self.heard, ensure_ascii=False, default=str)

    def watch(self, *names: str) -> None:
        """Let the observer listen to these events."""
        for event in names:
            if event not in self._watched():
                self.hooks.register(event, self._hear, name="observer")

    def _watched(self) -> set[str]:
        return {name for name, them in self.hooks.list_handlers().items() if "observer" in them}

    async def _hear(self, event: str, data: Any) -> None:
        self.heard.append((event, data))


Open = Callable[..., Awaitable[Harness]]


@pytest.fixture
def open_house() -> Iterator[Open]:
    """Opens sessions with configurations of the test's choice, and closes them after it."""
    opened: list[Harness] = []

    async def open_one(**config: Any) -> Harness:
        harness = Harness()
        opened.append(harness)
        harness.stop = await mount(harness.coordinator, config)
        await on_session_ready(harness.coordinator)
        harness.watch("redaction:refused", "redaction:failed", *STREAMED)
        return harness

    yield open_one
    for harness in opened:
        harness.stop()
