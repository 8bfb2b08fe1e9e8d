"""provider-openai: OpenAI's models, over the Responses API."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.calls.mounting import mount_provider, with_key
from amplifier_module_provider_openai.config import KEY_VARIABLE, URL_VARIABLE, OpenAIConfig
from amplifier_module_provider_openai.provider import OpenAIProvider

__amplifier_module_type__ = "provider"
__all__ = ["OpenAIProvider", "mount"]


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]] | None:
    """Mount `openai`; the cleanup closes its connections. Config: see `OpenAIConfig`.

    Without a key nothing is mounted, and a message says so.
    """
    given = OpenAIConfig.model_validate(config or {})
    settings = with_key(coordinator, given, OpenAIProvider.name, KEY_VARIABLE)
    if settings is None:
        return None
    base_url = settings.base_url or os.environ.get(URL_VARIABLE) or None
    settings = settings.model_copy(update={"base_url": base_url})
    return await mount_provider(coordinator, OpenAIProvider(settings, coordinator))
