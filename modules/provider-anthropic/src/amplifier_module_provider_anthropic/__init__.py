"""provider-anthropic: Claude over the Messages API, and any server that speaks its format."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.calls.mounting import mount_provider, with_key
from amplifier_module_provider_anthropic.config import KEY_VARIABLE, AnthropicConfig
from amplifier_module_provider_anthropic.provider import AnthropicProvider

__amplifier_module_type__ = "provider"
__all__ = ["AnthropicProvider", "mount"]


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]] | None:
    """Mount `anthropic`. Config: see `AnthropicConfig`. Without a key nothing is mounted."""
    given = AnthropicConfig.model_validate(config or {})
    settings = with_key(coordinator, given, AnthropicProvider.name, KEY_VARIABLE)
    if settings is None:
        return None
    return await mount_provider(coordinator, AnthropicProvider(settings, coordinator))
