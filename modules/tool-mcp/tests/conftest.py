"""A workspace with a server in it, the module mounted for it, and an eye on the process table."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.models import ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_mcp import mount

DATA = Path(__file__).parent / "data"
PYTHON_PATHS = sorted({sys.prefix, sys.base_prefix})
SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


class Harness:
    """The module in its workspace."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.coordinator: Any = MockCoordinator()
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.close: Callable[[], Awaitable[None]] | None = None

    @staticmethod
    def tool(name: str = "say", description: str = "Says a word.", **schema: Any) -> dict[str, Any]:
        """Return a tool as a server lists it."""
        return {"name": name, "description": description, "inputSchema": schema or SCHEMA}

    def plan(self, **plan: Any) -> None:
        """Say how the server behaves from its next start on."""
        path = self.workspace / "plan.json"
        path.write_text(json.dumps({"tools": [self.tool()], **plan}), "utf-8")

    def planned(self, *args: str, **more: Any) -> dict[str, Any]:
        """Return the configuration of the planned server."""
        return {
            "command": sys.executable,
            "args": ["planned_server.py", *args],
            "cwd": str(self.workspace),
            "read_only_paths": PYTHON_PATHS,
            "trust": True,
            **more,
        }

    async def mount(self, server: dict[str, Any] | None = None, **config: Any) -> None:
        """Mount the module with one server called `x`."""
        for event in ("starting", "connected", "lost", "refused", "approved", "trouble"):
            self.coordinator.hooks.register(f"mcp:{event}", self._hear)
        self.coordinator.hooks.register("sandbox:degraded", self._hear)
        async with asyncio.timeout(120):
            self.close = await mount(
                self.coordinator,
                {
                    "servers": {"x": self.planned() if server is None else server},
                    "seen_file": str(self.workspace.parent / "seen.json"),
                    "connect_seconds": 60,
                    "call_seconds": 2,
                    "shutdown_seconds": 0.3,
                    **config,
                },
            )

    async def _hear(self, event: str, data: dict[str, Any]) -> None:
        self.heard.append((event, data))

    async def call(self, name: str = "x__say", **arguments: Any) -> ToolResult:
        """Call a mounted tool."""
        async with asyncio.timeout(120):
            return await self.coordinator.get("tools", name).execute(arguments)

    async def load(self, name: str) -> ToolResult:
        return await self.call("mcp_load", tool=name)

    def names(self) -> list[str]:
        return sorted(self.coordinator.get("tools"))

    def starts(self) -> int:
        """Return how often the server was started."""
        path = self.workspace / "starts"
        return len(path.read_text("utf-8").splitlines()) if path.exists() else 0

    def lines(self) -> str:
        """Return all that the user was shown."""
        calls = self.coordinator.display_system.show_message.call_args_list
        return "\n".join(each.args[0] for each in calls)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [data for event, data in self.heard if event == name]

    def processes(self) -> list[str]:
        """Return the command lines of all processes that work in the workspace."""
        found: list[str] = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and (folder / "cwd").readlink() == self.workspace:
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for script in DATA.glob("*.py"):
        shutil.copy(script, workspace)
    harness = Harness(workspace)
    harness.plan()
    yield harness
    if harness.close is not None:
        async with asyncio.timeout(120):
            await harness.close()
    assert harness.processes() == []
