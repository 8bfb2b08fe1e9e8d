"""What the tests with a real model share: the server, and sessions that talk to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import EventRecorder
from real_model.running import RealModel, running_server

_HEARD = (
    "llm:request",
    "llm:response",
    "llm:stream_block_start",
    "llm:stream_block_delta",
    "llm:stream_block_end",
    "llm:stream_aborted",
)
# What each format needs: its path on the same server, and a version that has a temperature.
_FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "provider-chat-completions": ("/v1", {}),
    "provider-openai": ("/v1", {}),
    "provider-anthropic": ("", {"api_version": "2023-06-01"}),
}

Open = Callable[..., Awaitable[tuple[AmplifierSession, EventRecorder]]]


@pytest.fixture(scope="session")
def model() -> Generator[RealModel]:
    """The model, on one server for the whole run."""
    with running_server() as served:
        yield served


@pytest.fixture
async def open_session(model: RealModel) -> AsyncGenerator[Open]:
    """Open a session whose provider asks the real model, and record what it announces."""
    async with AsyncExitStack() as sessions:

        async def open_one(module: str, **config: Any) -> tuple[AmplifierSession, EventRecorder]:
            path, needed = _FORMATS[module]
            settings: dict[str, Any] = {
                "base_url": model.url + path,
                "api_key": "none-is-needed",
                "default_model": model.name,
                "context_window": model.window,
                "max_output_tokens": 48,
                "temperature": 0,
                # One thread of a busy machine: seconds may pass before the first token.
                "idle_timeout_seconds": 90,
                "max_retries": 0,
                **needed,
                **config,
            }
            plan = {
                "session": {"orchestrator": "loop-basic", "context": "context-simple"},
                "providers": [{"module": module, "config": settings}],
            }
            session = await sessions.enter_async_context(AmplifierSession(plan))
            recorder = EventRecorder()
            for event in _HEARD:
                session.coordinator.hooks.register(event, recorder.record)
            return session, recorder

        yield open_one
