"""provider-failover: several providers as one; when one fails, the turn continues with the next."""

from __future__ import annotations

from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_provider_failover.config import FailoverConfig
from amplifier_module_provider_failover.provider import EVENTS, FailoverProvider

__amplifier_module_type__ = "provider"
__all__ = ["FailoverProvider", "mount", "on_session_ready"]


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount `failover`. Config: see `FailoverConfig`. Nothing to clean up."""
    provider = FailoverProvider(FailoverConfig.model_validate(config or {}), coordinator)
    await coordinator.mount("providers", provider, name=provider.name)
    coordinator.register_contributor("observability.events", "provider-failover", EVENTS.copy)


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Announce which members are missing, once everything is mounted."""
    for provider in list(coordinator.mount_points["providers"].values()):
        if isinstance(provider, FailoverProvider):
            await provider.announce_missing()
