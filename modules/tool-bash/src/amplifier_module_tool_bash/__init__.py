"""tool-bash: shell commands in a sandbox, asked about unless a rule allows them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult
from amplifier_kit import notices
from amplifier_module_tool_bash.config import UNPROTECTED, BashConfig
from amplifier_module_tool_bash.guard import GUARD_PRIORITY, CommandGuard
from amplifier_module_tool_bash.jobs import JobsTool
from amplifier_module_tool_bash.session_parts import SessionParts
from amplifier_module_tool_bash.tool import DEGRADED, SOURCE, STOPPED, BashTool, parts_of
from amplifier_sandbox.processes.live_output import OUTPUT
from amplifier_sandbox.processes.sandbox import Sandbox

__amplifier_module_type__ = "tool"
__all__ = ["BashTool", "mount"]

_FIND_PARTS = "tool-bash:parts"


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]]:
    """Find the sandbox of this machine and mount `bash`. Config: see `BashConfig`.

    Without a sandbox the tool is mounted and refuses every call. Cleanup: unregisters the guard,
    and ends what runs in the background.
    """
    settings = BashConfig.model_validate(config or {})
    if settings.sandbox == UNPROTECTED:
        find = Sandbox.waived
    else:
        find = Sandbox.detect
    sandbox = await asyncio.to_thread(find)
    if not sandbox.protects_paths:
        notices.show(coordinator, " ".join(sandbox.describe()), source=SOURCE)
    inherited = await _parts_above(coordinator)
    parts = inherited or parts_of(settings, sandbox)
    tool = BashTool(settings, sandbox, coordinator, parts)
    guard = CommandGuard(tool, settings, coordinator.get_capability)

    def show_parts(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(data={"parts": parts})

    undo = [
        coordinator.hooks.register(event, handler, GUARD_PRIORITY, SOURCE, on_error="deny")
        for event, handler in ((events.TOOL_PRE, guard), (_FIND_PARTS, show_parts))
    ]
    await coordinator.mount("tools", tool, name=tool.name)
    jobs = JobsTool(parts.jobs)
    await coordinator.mount("tools", jobs, name=jobs.name)
    announced = [OUTPUT, DEGRADED, STOPPED]
    coordinator.register_contributor("observability.events", SOURCE, announced.copy)

    async def cleanup() -> None:
        while undo:
            undo.pop()()
        if inherited is None:
            await parts.close()

    return cleanup


async def _parts_above(coordinator: ModuleCoordinator) -> SessionParts | None:
    """Return the parts of the session that this one was forked from."""
    # Forked sessions inherit the handlers of guards, so a forked session finds the parts by this
    # event. A limit per process would let sessions of different users use up each other's memory.
    for found in await coordinator.hooks.emit_and_collect(_FIND_PARTS, {}):
        if isinstance(found.get("parts"), SessionParts):
            return found["parts"]
    return None
