"""Sources of small modules, good ones, for tests of the validators to break."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Plant: TypeAlias = Callable[[str], Path]

IMPORTS = """
from amplifier_core import ChatResponse, HookResult, ProviderInfo, ToolResult
"""
TOOL = """
class Tool:
    name = "planted"
    description = "A planted tool."
    input_schema = {"type": "object"}
    async def execute(self, input):
        return ToolResult()
async def mount(coordinator, config):
    await coordinator.mount("tools", Tool())
"""
PROVIDER = """
class Provider:
    name = "planted"
    def get_info(self):
        return ProviderInfo(id="planted", display_name="Planted")
    async def list_models(self):
        return []
    async def complete(self, request, **kwargs):
        return ChatResponse(content=[])
    def parse_tool_calls(self, response):
        return []
async def mount(coordinator, config):
    if config.get("api_key"):
        await coordinator.mount("providers", Provider())
"""
