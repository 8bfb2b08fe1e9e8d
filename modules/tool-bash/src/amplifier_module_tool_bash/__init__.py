"""tool-bash: shell commands in a sandbox, asked about unless a rule allows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit import notices
from amplifier_kit.sandbox.live_output import OUTPUT
from amplifier_kit.sandbox.sandbox import Sandbox
from amplifier_module_tool_bash.config import UNPROTECTED, BashConfig
from amplifier_module_tool_bash.guard import GUARD_PRIORITY, CommandGuard
from amplifier_module_tool_bash.tool import DEGRADED, SOURCE, BashTool

__amplifier_module_type__ = "tool"
__all__ = ["BashTool", "mount"]


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Find the sandbox of this machine and mount `bash`. Config: see `BashConfig`.

    Without a sandbox the tool is mounted and refuses every call. Cleanup: nobody is asked any more.
    """
    settings = BashConfig.model_validate(config or {})
    find = Sandbox.waived if settings.sandbox == UNPROTECTED else Sandbox.detect
    sandbox = await asyncio.to_thread(find)
    if sandbox.level != "bubblewrap":
        notices.show(coordinator, " ".join(sandbox.describe()), source=SOURCE)
    tool = BashTool(settings, sandbox, coordinator)
    stop_asking = coordinator.hooks.register(
        events.TOOL_PRE,
        CommandGuard(tool.name, settings, tool.workspace, coordinator.get_capability),
        priority=GUARD_PRIORITY,
        name=SOURCE,
        on_error="deny",
    )
    await coordinator.mount("tools", tool, name=tool.name)
    announced = [OUTPUT, DEGRADED]
    coordinator.register_contributor("observability.events", SOURCE, announced.copy)
    return stop_asking
