"""tool-bash: shell commands in a sandbox, asked about unless a rule allows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult
from amplifier_kit import notices
from amplifier_module_tool_bash.config import UNPROTECTED, BashConfig
from amplifier_module_tool_bash.guard import GUARD_PRIORITY, CommandGuard
from amplifier_module_tool_bash.tool import DEGRADED, SOURCE, STOPPED, BashTool, bounds_of
from amplifier_sandbox.processes.live_output import OUTPUT
from amplifier_sandbox.processes.sandbox import Sandbox
from amplifier_sandbox.processes.session_bounds import SessionBounds

__amplifier_module_type__ = "tool"
__all__ = ["BashTool", "mount"]

_FIND_BOUNDS = "tool-bash:bounds"


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Find the sandbox of this machine and mount `bash`. Config: see `BashConfig`.

    Without a sandbox the tool is mounted and refuses every call. Cleanup: unregisters the guard.
    """
    settings = BashConfig.model_validate(config or {})
    if settings.sandbox == UNPROTECTED:
        find = Sandbox.waived
    else:
        find = Sandbox.detect
    sandbox = await asyncio.to_thread(find)
    if sandbox.level != "bubblewrap":
        notices.show(coordinator, " ".join(sandbox.describe()), source=SOURCE)
    bounds = await _bounds_for(coordinator, settings, sandbox)
    tool = BashTool(settings, sandbox, coordinator, bounds)
    guard = CommandGuard(tool.name, settings, tool.workspace, coordinator.get_capability)

    def show_bounds(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(data={"bounds": bounds})

    undo = [
        coordinator.hooks.register(event, handler, GUARD_PRIORITY, SOURCE, on_error="deny")
        for event, handler in ((events.TOOL_PRE, guard), (_FIND_BOUNDS, show_bounds))
    ]
    await coordinator.mount("tools", tool, name=tool.name)
    announced = [OUTPUT, DEGRADED, STOPPED]
    coordinator.register_contributor("observability.events", SOURCE, announced.copy)

    def cleanup() -> None:
        while undo:
            undo.pop()()

    return cleanup


async def _bounds_for(
    coordinator: ModuleCoordinator, settings: BashConfig, sandbox: Sandbox
) -> SessionBounds:
    """Return the bounds of the session that this one was forked from, or new ones."""
    # Forked sessions inherit the handlers of guards, so a forked session finds the bounds by this
    # event. A limit per process would let sessions of different users use up each other's memory.
    for found in await coordinator.hooks.emit_and_collect(_FIND_BOUNDS, {}):
        if isinstance(found.get("bounds"), SessionBounds):
            return found["bounds"]
    return bounds_of(settings, sandbox)
