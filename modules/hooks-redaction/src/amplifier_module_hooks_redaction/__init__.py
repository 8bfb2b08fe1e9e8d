"""hooks-redaction: blanks secrets in every event before any other hook sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.configuration import read_config
from amplifier_module_hooks_redaction.config import RedactionConfig
from amplifier_module_hooks_redaction.hook import EVENTS, NAME, Redaction

__amplifier_module_type__ = "hook"
__all__ = ["mount", "on_session_ready"]

_REFRESH = "redaction.refresh"
_TEXT = "redaction.text"


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Listen to every event that is known so far, and to the log. Config: see `RedactionConfig`.

    Cleanup: stops listening.
    """
    settings = read_config(RedactionConfig, config, NAME)
    redaction = Redaction(coordinator, settings)
    coordinator.register_contributor("observability.events", NAME, EVENTS.copy)
    coordinator.register_capability(_REFRESH, redaction.watch.refresh)
    coordinator.register_capability(_TEXT, redaction.blank)
    await redaction.watch.refresh([*EVENTS, *settings.events])
    return redaction.stop


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Listen to events of modules that were mounted later, and learn the app's secrets."""
    refresh: Any = coordinator.get_capability(_REFRESH)
    if refresh is not None:
        await refresh()
