"""hooks-logging: every event as a line of JSON, in a file of bounded size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_hooks_logging.config import LoggingConfig
from amplifier_module_hooks_logging.hook import EVENTS, NAME, EventLog

__amplifier_module_type__ = "hook"
__all__ = ["mount", "on_session_ready"]

_REFRESH = "logging.refresh"


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]]:
    """Listen to every event that is known so far. Config: see `LoggingConfig`.

    Cleanup: stops listening, and writes what is queued.
    """
    settings = LoggingConfig.model_validate(config or {})
    log = EventLog(coordinator, settings)
    coordinator.register_contributor("observability.events", NAME, EVENTS.copy)
    coordinator.register_capability(_REFRESH, log.watch.refresh)
    await log.watch.refresh([*EVENTS, *settings.events])
    return log.stop


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Listen to events of modules that were mounted later, and learn the app's secrets."""
    refresh: Any = coordinator.get_capability(_REFRESH)
    if refresh is not None:
        await refresh()
