"""tool-search: finds text and files in the working folder, and leaves it by no link."""

from __future__ import annotations

from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.notices import show
from amplifier_module_files.tool_search.config import SearchConfig
from amplifier_module_files.tool_search.programs import find_ripgrep
from amplifier_module_files.tool_search.tools import INCOMPLETE, GlobTool, GrepTool
from amplifier_sandbox.files.own_files import OwnFiles
from amplifier_sandbox.files.rooted import Root
from amplifier_sandbox.files.workspace import Workspace, working_dir

__amplifier_module_type__ = "tool"
__all__ = ["mount", "on_session_ready"]

_NAME = "tool-search"
_DEGRADED = "search:degraded"
_NO_RIPGREP = "ripgrep (`rg`) is not installed: grep is slower, and its patterns are Python's."


async def mount(coordinator: ModuleCoordinator, config: dict[str, Any] | None = None) -> None:
    """Mount `grep` and `glob`. Config: see `SearchConfig`. Nothing to clean up."""
    settings = SearchConfig.model_validate(config or {})
    working = working_dir(coordinator, settings.working_dir)
    root = Root(working, writable=False, own=OwnFiles(working))
    grep = GrepTool(coordinator, settings, Workspace(root))
    grep.ripgrep = find_ripgrep(root.path)
    await coordinator.mount("tools", grep)
    await coordinator.mount("tools", GlobTool(coordinator, settings, Workspace(root)))
    coordinator.register_contributor("observability.events", _NAME, lambda: [_DEGRADED, INCOMPLETE])


async def on_session_ready(coordinator: ModuleCoordinator) -> None:
    """Announce if ripgrep is not installed."""
    grep = coordinator.get_mounted("tools").get(GrepTool.name)
    if isinstance(grep, GrepTool) and grep.ripgrep is None:
        show(coordinator, _NO_RIPGREP, source=_NAME)
        await coordinator.hooks.emit(_DEGRADED, {"module": _NAME, "reason": _NO_RIPGREP})
