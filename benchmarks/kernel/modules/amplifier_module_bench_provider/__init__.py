"""bench-provider: a model without a network, which builds its response objects on every call."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core import (
    ChatRequest,
    ChatResponse,
    ModelInfo,
    ModuleCoordinator,
    ProviderInfo,
    TextBlock,
    ToolCall,
    ToolCallBlock,
)

__amplifier_module_type__ = "provider"


class BenchProvider:
    """Asks `tool_calls` times for the tool, then answers."""

    name = "bench"
    priority = 1

    def __init__(self, tool_calls: int, delay: float) -> None:
        self._tool_calls, self._delay, self._asked = tool_calls, delay, 0

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="bench", display_name="Bench")

    async def list_models(self) -> list[ModelInfo]:
        return []

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        if self._delay:
            await asyncio.sleep(self._delay)
        if self._asked < self._tool_calls:
            self._asked += 1
            call_id = f"c{self._asked}"
            # Other numbers each time: a loop may stop a model that goes in circles.
            arguments = {"a": self._asked, "b": 2}
            return ChatResponse(
                content=[ToolCallBlock(id=call_id, name="add", input=arguments)],
                tool_calls=[ToolCall(id=call_id, name="add", arguments=arguments)],
            )
        self._asked = 0
        return ChatResponse(content=[TextBlock(text="done")])


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount `bench`. Config: `tool_calls` per turn (1), `delay` of every call in seconds (0)."""
    settings = config or {}
    provider = BenchProvider(settings.get("tool_calls", 1), settings.get("delay", 0.0))
    await coordinator.mount("providers", provider, name="bench")
