"""tool-web: reads public web pages as text and searches for them, and reaches nothing else."""

from __future__ import annotations

from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.fetcher import Fetcher
from amplifier_module_tool_web.search_engine import SearchEngine
from amplifier_module_tool_web.tools import PARTIAL, REFUSED, WebFetch, WebSearch

__amplifier_module_type__ = "tool"
__all__ = ["WebFetch", "WebSearch", "mount", "on_session_ready"]

_BACKEND_SECONDS = 30.0
SEARCH_UNAVAILABLE = "web:search_unavailable"
_NO_SEARCH = "configure `search` of tool-web, or mount a module that offers `web.search`"


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount `web_fetch`, and `web_search` if an engine is configured. Nothing to clean up."""
    settings = WebConfig.model_validate(config or {})
    events = [REFUSED, PARTIAL, SEARCH_UNAVAILABLE]
    coordinator.register_contributor("observability.events", "tool-web", events.copy)
    await coordinator.mount("tools", WebFetch(coordinator, Fetcher(settings)))
    if settings.search is not None:
        engine = SearchEngine(settings, settings.search)
        await coordinator.mount("tools", WebSearch(coordinator, engine, settings.timeout_seconds))


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Mount `web_search` if another module offers the capability `web.search`."""
    if WebSearch.name in coordinator.get_mounted("tools"):
        return
    backend = coordinator.get_capability("web.search")
    if backend is None:
        # No message for the user: the model does not know the tool, so nothing is missing unless
        # somebody looks for it.
        missing = {"tool": WebSearch.name, "reason": _NO_SEARCH}
        coordinator.register_contributor("tools.unavailable", "tool-web", missing.copy)
        await coordinator.hooks.emit(SEARCH_UNAVAILABLE, missing)
    else:
        await coordinator.mount("tools", WebSearch(coordinator, backend, _BACKEND_SECONDS))
