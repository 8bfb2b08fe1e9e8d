"""What the tests of provider-failover share: a session with scripted members, and its witnesses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import EventRecorder
from amplifier_module_provider_failover import FailoverProvider
from amplifier_module_provider_failover.config import FailoverConfig

_HEARD = (
    "llm:request",
    "llm:stream_aborted",
    "provider:failover",
    "provider:failover_recovered",
    "provider:failover_missing",
)


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Screen:
    """A display that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source} {level}: {message}")


class Harness:
    """A session whose failover has scripted members, and everything that can be seen of it."""

    def __init__(self, session: AmplifierSession, clock: Clock, screen: Screen) -> None:
        self.session = session
        self.coordinator = session.coordinator
        self.clock = clock
        self.screen = screen
        self.recorder = EventRecorder()
        for event in _HEARD:
            self.coordinator.hooks.register(event, self.recorder.record)

    async def mount(self, **config: Any) -> FailoverProvider:
        """Mount a failover that lives by the clock of the test."""
        settings = FailoverConfig.model_validate(config)
        provider = FailoverProvider(settings, self.coordinator, clock=self.clock)
        await self.coordinator.mount("providers", provider)
        return provider

    @property
    def failover(self) -> FailoverProvider:
        """The mounted failover."""
        return self.coordinator.get_mounted("providers")["failover"]

    def announced(self, event: str, *keys: str) -> list[dict[str, Any]]:
        """Return the data of every such event, reduced to `keys`."""
        return [{key: data[key] for key in keys} for _, data in self.recorder.get_events(event)]


Build = Callable[..., Awaitable[Harness]]


@pytest.fixture
async def build() -> AsyncGenerator[Build]:
    """Build a harness from the configuration of each member, in order."""
    async with AsyncExitStack() as houses:

        async def make(members: dict[str, dict[str, Any]], **failover: Any) -> Harness:
            plan = {
                "session": {"orchestrator": "loop-basic", "context": "context-simple"},
                "providers": [
                    {"module": "provider-mock", "instance_id": name, "config": config}
                    for name, config in members.items()
                ],
            }
            screen = Screen()
            session = AmplifierSession(plan, display_system=screen)
            harness = Harness(await houses.enter_async_context(session), Clock(), screen)
            await harness.mount(**{"providers": list(members), **failover})
            return harness

        yield make
