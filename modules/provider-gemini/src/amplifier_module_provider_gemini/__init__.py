"""provider-gemini: Google's Gemini models, over the Gemini API's own SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.calls.mounting import mount_provider, with_key
from amplifier_module_provider_gemini.config import KEY_VARIABLES, GeminiConfig
from amplifier_module_provider_gemini.provider import GeminiProvider

__amplifier_module_type__ = "provider"
__all__ = ["GeminiProvider", "mount"]


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]] | None:
    """Mount `gemini`. Config: see `GeminiConfig`. Without a key nothing is mounted."""
    given = GeminiConfig.model_validate(config or {})
    settings = with_key(coordinator, given, GeminiProvider.name, *KEY_VARIABLES)
    if settings is None:
        return None
    return await mount_provider(coordinator, GeminiProvider(settings, coordinator))
