"""What the tests of context-summarizing share: contexts, the model that summarises, a screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_module_contexts.context_summarizing import SummarizingContextManager
from amplifier_module_contexts.context_summarizing.config import SummarizingConfig

Build = Callable[..., SummarizingContextManager]


class Screen:
    """What a person sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{level}: {message}")


@pytest.fixture
def screen() -> Screen:
    """Shows everything that the contexts of this test say to a person."""
    return Screen()


@pytest.fixture
def coordinator(screen: Screen) -> MockCoordinator:
    """A coordinator whose app has a screen."""
    coordinator = MockCoordinator()
    coordinator.display_system = screen
    return coordinator


@pytest.fixture
def recorder() -> EventRecorder:
    """Hears everything that the contexts of this test announce."""
    return EventRecorder()


@pytest.fixture
def build(coordinator: MockCoordinator, recorder: EventRecorder) -> Build:
    """Build a context from configuration keys; `messages` are put into it."""

    def make(
        messages: list[dict[str, Any]] | None = None, **config: Any
    ) -> SummarizingContextManager:
        hooks: Any = recorder
        context = SummarizingContextManager(
            SummarizingConfig(**config), hooks=hooks, coordinator=coordinator
        )
        context.messages = list(messages or [])
        return context

    return make
