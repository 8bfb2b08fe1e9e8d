"""A hook that declares a budget and is not the one that the product ships."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator

__amplifier_module_type__ = "hook"


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Declare what the configuration says."""
    nothing: dict[str, Any] = {"usd": None, "tokens": None, "steps": None, "prices": {}}
    ways = {"settle": "usage", "unknown_price": "refuse"}
    terms = SimpleNamespace(**nothing | ways | (config or {}))
    coordinator.register_capability("budget.terms", terms)
