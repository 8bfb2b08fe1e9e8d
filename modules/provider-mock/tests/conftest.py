"""What the tests of provider-mock share: providers that announce, and requests to give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import ChatRequest, HookRegistry, Message, ToolSpec
from amplifier_core.testing import EventRecorder
from amplifier_module_provider_mock import MockProvider
from amplifier_module_provider_mock.config import MockConfig

Build = Callable[..., MockProvider]
Ask = Callable[..., ChatRequest]

_ANNOUNCED = (
    "llm:request",
    "llm:response",
    "llm:stream_block_start",
    "llm:stream_block_delta",
    "llm:stream_block_end",
    "llm:stream_aborted",
)


@pytest.fixture
def recorder() -> EventRecorder:
    """Hears everything that the providers of this test announce."""
    return EventRecorder()


@pytest.fixture
def hooks(recorder: EventRecorder) -> HookRegistry:
    """A real registry with the recorder on every event of a model call."""
    registry = HookRegistry()
    for event in _ANNOUNCED:
        registry.register(event, recorder.record)
    return registry


@pytest.fixture
def build(hooks: HookRegistry) -> Build:
    """Build a provider from configuration keys; its clock ticks a quarter of a second a look."""

    def make(**config: Any) -> MockProvider:
        ticks = iter(range(1_000))
        ids = iter(range(1_000))
        return MockProvider(
            MockConfig.model_validate(config),
            hooks,
            clock=lambda: next(ticks) / 4,
            new_id=lambda: f"request-{next(ids)}",
        )

    return make


@pytest.fixture
def ask() -> Ask:
    """Make a request of a prompt, or of messages."""

    def make(
        *messages: str | dict[str, Any],
        tools: dict[str, dict[str, Any]] | None = None,
        **fields: Any,
    ) -> ChatRequest:
        dicts: list[dict[str, Any]] = [
            {"role": "user", "content": each} if isinstance(each, str) else each
            for each in messages
        ]
        specs = [
            ToolSpec(
                name=name,
                description=about.get("description"),
                parameters=about.get("parameters", {"type": "object", "properties": {}}),
            )
            for name, about in (tools or {}).items()
        ]
        return ChatRequest(
            messages=[Message(**each) for each in dicts], tools=specs or None, **fields
        )

    return make
