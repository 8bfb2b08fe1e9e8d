"""tool-mcp: the tools of MCP servers, sandboxed, approved by the user, and treated as untrusted."""

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
from amplifier_module_tool_mcp.tools import LoadTool, ToolRegistry
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

    A server that cannot be reached is announced and left out. Cleanup: ends all processes.
    """
    settings = McpConfig.model_validate(config or {})
    starts_any = any(isinstance(each, StdioServer) for each in settings.servers.values())
    if starts_any:
        sandbox = await asyncio.to_thread(Sandbox.detect)
    else:
        sandbox = Sandbox("none")
    sdk = LazyClient(_load_sdk)
    around = Surroundings(coordinator, settings, sandbox, SeenRecord(settings.seen_file), sdk)
    shelf = ToolRegistry(around)
    servers = {name: Server(name, each, around, shelf) for name, each in settings.servers.items()}
    coordinator.register_contributor("observability.events", SOURCE, EVENTS.copy)
    load = LoadTool(servers, shelf, around)
    await coordinator.mount("tools", load, name=load.name)

    async def close() -> None:
        # Shielded: a caller that cancels a slow cleanup must not leave a server running.
        await asyncio.shield(_end(servers, shelf))

    try:
        await asyncio.gather(*map(_try, servers.values()))
    except BaseException:
        # A cancelled mount must leave no process either.
        await close()
        raise
    return close


async def _try(server: Server) -> None:
    try:
        await server.connect()
    except ServerFailure as failure:
        # It was announced to the user; `mcp_load` tries again.
        logger.debug("mcp server left out name=%s reason=%s", server.name, failure)


async def _end(servers: dict[str, Server], shelf: ToolRegistry) -> None:
    await shelf.clear()
    await asyncio.gather(*(server.close() for server in servers.values()))


def _load_sdk() -> type[Connection]:
    return import_module("amplifier_module_tool_mcp.connection").Connection
