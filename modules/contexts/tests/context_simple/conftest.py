"""What the tests of context-simple share: memories whose announcements are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import HookRegistry
from amplifier_core.testing import EventRecorder
from amplifier_module_contexts.context_simple import SimpleContextManager

Build = Callable[..., SimpleContextManager]


@pytest.fixture
def recorder() -> EventRecorder:
    """Hears every compaction of this test."""
    return EventRecorder()


@pytest.fixture
def build(recorder: EventRecorder) -> Build:
    """Build a memory from configuration keys; `messages` are put into it."""

    def make(messages: list[dict[str, Any]] | None = None, **config: Any) -> SimpleContextManager:
        hooks = HookRegistry()
        for event in ("context:pre_compact", "context:post_compact", "context:compaction"):
            hooks.register(event, recorder.record)
        context = SimpleContextManager(hooks=hooks, **config)
        context.messages = list(messages or [])
        return context

    return make
