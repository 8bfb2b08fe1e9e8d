"""The dependencies that all servers of a session share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit import notices
from amplifier_kit.calls.lazy_client import LazyClient
from amplifier_module_tool_mcp.config import McpConfig
from amplifier_module_tool_mcp.seen import SeenRecord
from amplifier_sandbox.processes.sandbox import Sandbox
from amplifier_sandbox.visible_text import visible

if TYPE_CHECKING:
    from amplifier_module_tool_mcp.connection import Connection

SOURCE = "tool-mcp"
STARTING = "mcp:starting"
CONNECTED = "mcp:connected"
LOST = "mcp:lost"
REFUSED = "mcp:refused"
APPROVED = "mcp:approved"
TROUBLE = "mcp:trouble"
DEGRADED = "sandbox:degraded"
_MOST_CHARS = 5_000
EVENTS = [STARTING, CONNECTED, LOST, REFUSED, APPROVED, TROUBLE, DEGRADED]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Coordinator, settings, sandbox, record of approvals and SDK of a session."""

    coordinator: ModuleCoordinator
    settings: McpConfig
    sandbox: Sandbox
    record: SeenRecord
    sdk: LazyClient[type[Connection]]

    async def tell(
        self, event: str, line: str, level: notices.Level = "warning", /, **facts: Any
    ) -> None:
        """Show `line` to the user, with invisible characters escaped, and emit `event`."""
        # Cut first: escaping reads every character, and a server may send millions.
        line = visible(line[:_MOST_CHARS])
        notices.show(self.coordinator, line, level, source=SOURCE)
        await self.announce(event, line, **facts)

    async def announce(self, event: str, line: str, /, **facts: Any) -> None:
        """Emit `event` without showing a message, for one of many similar events."""
        await self.coordinator.hooks.emit(event, {**facts, "message": line})

    def workspace(self) -> str:
        """Return the working folder of the session."""
        known: Any = self.coordinator.get_capability("session.working_dir")
        if isinstance(known, str) and known:
            return known
        return str(Path.cwd())
