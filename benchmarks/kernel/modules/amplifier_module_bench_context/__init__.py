"""bench-context: a list of messages and nothing else."""

from __future__ import annotations

from typing import Any

from amplifier_core import ModuleCoordinator

__amplifier_module_type__ = "context"


class BenchContext:
    """Keeps messages in memory; a request gets a copy of the list."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        return list(self.messages)

    async def get_messages(self) -> list[dict[str, Any]]:
        return list(self.messages)

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        self.messages = list(messages)

    async def clear(self) -> None:
        self.messages.clear()


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount the context. No configuration."""
    await coordinator.mount("context", BenchContext())
