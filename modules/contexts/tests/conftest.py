"""What the tests of the shared memory need: contexts whose announcements and lines are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.testing import EventRecorder
from amplifier_module_contexts.config import MemoryConfig
from amplifier_module_contexts.context import FittingContext
from amplifier_module_contexts.spill import MemoryBlobs

Build = Callable[..., FittingContext]


class Screen:
    """Takes the place of an app: what a person would see."""

    def __init__(self) -> None:
        self.display_system = self
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{level}: {message}")


@pytest.fixture
def recorder() -> EventRecorder:
    """Hears everything that the contexts of this test announce."""
    return EventRecorder()


@pytest.fixture
def screen() -> Screen:
    """Shows everything that the contexts of this test say to a person."""
    return Screen()


@pytest.fixture
def build(recorder: EventRecorder, screen: Screen) -> Build:
    """Build a context from configuration keys; with `blob_bytes` it spills."""

    def make(blob_bytes: int | None = None, **config: Any) -> FittingContext:
        hooks: Any = recorder
        blobs = None if blob_bytes is None else MemoryBlobs(blob_bytes)
        return FittingContext(MemoryConfig(**config), hooks=hooks, coordinator=screen, blobs=blobs)

    return make
