"""A model that answers when `release` is in its folder; `reached` there says that it was asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall
from amplifier_core.models import ProviderInfo

__amplifier_module_type__ = "provider"


class WaitingModel:
    """Implements the kernel's `Provider`."""

    name = "waiting"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="waiting", display_name="Waiting")

    async def list_models(self) -> list[Any]:
        return []

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        (self._folder / "reached").touch()
        while not (self._folder / "release").exists():  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.02)
        return ChatResponse(content=[TextBlock(text="done")], finish_reason="stop")


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    folder = Path((config or {})["folder"])
    await coordinator.mount("providers", WaitingModel(folder))
