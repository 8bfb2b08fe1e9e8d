"""tool-mcp: the tools of MCP servers, contained, seen by a person first, and never believed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.calls.lazy_client import LazyClient
from amplifier_module_tool_mcp.config import McpConfig, StdioServer
from amplifier_module_tool_mcp.errors import ServerFailure
from amplifier_module_tool_mcp.seen import SeenRecord
from amplifier_module_tool_mcp.server import Server
from amplifier_module_tool_mcp.surroundings import EVENTS, SOURCE, Surroundings
from amplifier_module_tool_mcp.tools import LoadTool, Shelf
from amplifier_sandbox.processes.sandbox import Sandbox

if TYPE_CHECKING:
    from amplifier_module_tool_mcp.connection import Connection

__amplifier_module_type__ = "tool"
__all__ = ["mount"]

logger = logging.getLogger(__name__)


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], Awaitable[None]]:
    """Connect to all servers and mount their tools and `mcp_load`. Config: see `McpConfig`.

    A server that cannot be reached is told of and left out. Cleanup: no process is left.
    """
    settings = McpConfig.model_validate(config or {})
    starts_any = any(isinstance(each, StdioServer) for each in settings.servers.values())
    if starts_any:
        sandbox = await asyncio.to_thread(Sandbox.detect)
    else:
        sandbox = Sandbox("none")
    sdk = LazyClient(_load_sdk)
    around = Surroundings(coordinator, settings, sandbox, SeenRecord(settings.seen_file), sdk)
    shelf = Shelf(around)
    servers = {name: Server(name, each, around, shelf) for name, each in settings.servers.items()}
    coordinator.register_contributor("observability.events", SOURCE, EVENTS.copy)
    load = LoadTool(servers, shelf, around)
    await coordinator.mount("tools", load, name=load.name)

    async def close() -> None:
        # Shielded: whoever loses patience with a server must not leave it behind.
        await asyncio.shield(_end(servers, shelf))

    try:
        await asyncio.gather(*map(_try, servers.values()))
    except BaseException:
        await close()
        raise
    return close


async def _try(server: Server) -> None:
    try:
        await server.connect()
    except ServerFailure as failure:
        # The person was told; `mcp_load` tries again.
        logger.debug("mcp server left out name=%s reason=%s", server.name, failure)


async def _end(servers: dict[str, Server], shelf: Shelf) -> None:
    await shelf.clear()
    await asyncio.gather(*(server.close() for server in servers.values()))


def _load_sdk() -> type[Connection]:
    return import_module("amplifier_module_tool_mcp.connection").Connection
