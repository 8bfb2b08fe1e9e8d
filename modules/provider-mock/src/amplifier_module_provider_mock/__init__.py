"""provider-mock: answers without a model or a key, for tests and demonstrations."""

from __future__ import annotations

from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.calls.block_stream import STREAM_EVENTS
from amplifier_kit.calls.prices import price_table
from amplifier_kit.calls.settings import FREE
from amplifier_module_provider_mock.config import MockConfig
from amplifier_module_provider_mock.provider import MockProvider

__amplifier_module_type__ = "provider"
__all__ = ["MockProvider", "mount"]


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount `mock`. Config: see `MockConfig`. Nothing to clean up."""
    provider = MockProvider(MockConfig.model_validate(config or {}), coordinator.hooks)
    await coordinator.mount("providers", provider, name=provider.name)
    price_table(coordinator).take_provider(provider.name, None, FREE)
    coordinator.register_contributor(
        "observability.events", "provider-mock", lambda: list(STREAM_EVENTS)
    )
    coordinator.register_contributor(
        "session.cost", "provider-mock", lambda: {"cost_usd": str(provider.cost_usd)}
    )
