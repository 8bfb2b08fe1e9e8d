"""The five modules of the module contracts, put together from the contracts' own blocks.

The code is the text of the blocks. What a block takes for granted (`_do_work`, a client, the
request that a loop prepares) is added here, and as little of it as the module needs to run.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from contract.seeds import BLOCKS

__all__ = ["KINDS", "module_source", "write_project"]

KINDS = ("tool", "provider", "hook", "orchestrator", "context")

_HEAD = """
import json
import logging
import os
from collections.abc import Callable
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.hooks import HookRegistry
from amplifier_core.interfaces import ContextManager, Orchestrator, Provider, Tool
from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall
from amplifier_core.message_models import Message, ToolSpec, Usage
from amplifier_core.models import HookResult, ModelInfo, ProviderInfo, ToolResult

logger = logging.getLogger(__name__)

"""
_BUILD = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"

"""


def write_project(parent: Path, kind: str, root: str = "") -> Path:
    """Write the project `my-<kind>` below a folder, its package flat or below `root`."""
    name = f"my-{kind}"
    folder = parent / name
    package = folder / root / name.replace("-", "_")
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(module_source(kind), encoding="utf-8")
    pyproject = _BUILD.format(name=name) + BLOCKS[_ENTRY_POINTS[kind]].text
    (folder / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    return folder


def module_source(kind: str) -> str:
    """Return the code of the module of a kind."""
    return _HEAD + _SOURCES[kind]()


_ENTRY_POINTS = {
    "tool": "S1:226",
    "provider": "S1:530",
    "hook": "S1:782",
    "orchestrator": "S1:1083",
    "context": "S1:1485",
}


def block(name: str, indent: int = 0) -> str:
    """Return a block's text, indented."""
    return textwrap.indent(BLOCKS[name].text.rstrip(), " " * indent) + "\n\n"


def part(name: str, start: str, end: str | None = None, indent: int = 0) -> str:
    """Return the lines of a block from one that contains `start` up to one that contains `end`."""
    lines = BLOCKS[name].text.splitlines()
    first = next(at for at, line in enumerate(lines) if start in line)
    rest = [at for at, line in enumerate(lines) if end is not None and end in line and at > first]
    last = rest[0] if rest else len(lines)
    text = textwrap.dedent("\n".join(lines[first:last])).rstrip()
    return textwrap.indent(text, " " * indent) + "\n\n"


def own(text: str, indent: int = 0) -> str:
    """Return lines that the blocks leave out."""
    return textwrap.indent(textwrap.dedent(text).strip("\n"), " " * indent) + "\n\n"


def _tool() -> str:
    return (
        block("S1:239")
        + own(
            """
            def __init__(self, config):
                self.config = config

            async def _do_work(self, required_param):
                return f"worked on {required_param}"
            """,
            4,
        )
        + block("S1:258", 4)
        + block("S1:288", 4)
        + block("S1:209")
    )


def _provider() -> str:
    return own(
        """
        class MyClient:
            closed = False

            async def close(self):
                MyClient.closed = True


        class MyProvider:
            def __init__(self, api_key, config):
                self.api_key = api_key
                self.config = config
                self.client = MyClient()

            @property
            def name(self) -> str:
                return "my-provider"

            def get_info(self) -> ProviderInfo:
                window = {"context_window": 100_000, "max_output_tokens": 1_000}
                return ProviderInfo(id="my-provider", display_name="Mine", defaults=window)

            async def list_models(self) -> list[ModelInfo]:
                return []

            async def complete(self, request: ChatRequest, **kwargs) -> ChatResponse:
                usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
                model = self.config.get("default_model", "model-v1")
                return ChatResponse(content=[TextBlock(text=f"{model} answers.")], usage=usage)

            def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
                return list(response.tool_calls or [])
        """
    ) + block("S1:504")


def _hook() -> str:
    return own(
        """
        async def my_validation_hook(event: str, data: dict[str, Any]) -> HookResult:
            if "/etc/passwd" in str(data.get("tool_input")):
                return HookResult(action="deny", reason="Access denied")
            return HookResult(action="continue")


        async def my_feedback_hook(event: str, data: dict[str, Any]) -> HookResult:
            return HookResult(action="continue")
        """
    ) + block("S1:754")


def _orchestrator() -> str:
    return _loop_of_turn() + _tool_run() + block("S1:1066")


def _loop_of_turn() -> str:
    """Put the fragments together in the order of the execution flow (S1:1034)."""
    return (
        own(
            """
            class MyOrchestrator:
                def __init__(self, config):
                    self.config = config

                async def execute(self, prompt, context, providers, tools, hooks):
                    config, request_options = self.config, {}
                    default_provider_name = next(iter(providers))
            """
        )
        + block("S1:1186", 8)
        + part("S1:1164", "# Add user message", "# Add assistant", 8)
        + own("while True:", 8)
        + part("S1:1164", "# Get messages for LLM", None, 12)
        + own(
            """
            model_name = None
            request = ChatRequest(
                messages=[Message(**each) for each in messages],
                tools=[
                    ToolSpec(name=t.name, description=t.description, parameters=schema_of(t))
                    for t in tools.values()
                ],
            )
            """,
            12,
        )
        + part("S1:1096", "# Before LLM call", "# Before tool execution", 12)
        + part("S1:1164", "# Add assistant response", "# Add tool result", 12)
        + own(
            """
            tool_calls = provider.parse_tool_calls(response)
            if not tool_calls:
                said = [block.text for block in response.content if block.type == "text"]
                return f"my-orchestrator: {''.join(said)}"
            for tool_call in tool_calls:
                result = await self._run_tool(tool_call, tools, context, hooks)
            """,
            12,
        )
        + part("S1:1164", "# Add tool result", "# Get messages", 16)
    )


def _tool_run() -> str:
    return (
        own(
            """
            async def _run_tool(self, tool_call, tools, context, hooks):
                data = {"tool_name": tool_call.name, "tool_input": tool_call.input}
            """,
            4,
        )
        + block("S1:1134", 8)
        + own("tool = next(each for each in tools.values() if each.name == tool_call.name)", 8)
        + part("S1:1096", "result = await tool.execute", None, 8)
        + own("return result", 8)
        + own(
            """
            async def request_approval(result):
                return False


            def schema_of(tool):
                schema = getattr(tool, "input_schema", None)
                return schema if schema is not None else tool.get_schema()
            """
        )
    )


def _context() -> str:
    """Put the methods together; the non-destructive ones come last, so that they count."""
    return (
        own(
            """
            class MyContextManager:
                def __init__(self, max_tokens=100000, compaction_threshold=0.8):
                    self._max_tokens = max_tokens
                    self._compaction_threshold = compaction_threshold
                    self._messages = []
                    self._token_count = 0

                def _estimate_tokens(self, message):
                    return len(json.dumps(message, default=str)) // 4

                def _count_tokens(self, messages):
                    return sum(self._estimate_tokens(each) for each in messages)

                def _should_compact(self, token_count, budget):
                    return token_count > budget * self._compaction_threshold

                def _compact_messages(self, messages, budget):
                    kept = MyContextManager(self._max_tokens, self._compaction_threshold)
                    keep_count = max(1, len(messages) // 2)
                    while kept._count_tokens(messages) > budget and len(messages) > keep_count > 0:
                        kept._messages = messages
                        kept._truncate(keep_count)
                        messages = kept._messages
                        keep_count //= 2
                    return messages

                def _truncate(self, keep_count):
            """
        )
        + block("S1:1759", 8)
        + "".join(block(name, 4) for name in ("S1:1498", "S1:1516", "S1:1569", "S1:1579"))
        + block("S1:1622", 4)
        + block("S1:1674", 4)
        + block("S1:1465")
    )


_SOURCES = {
    "tool": _tool,
    "provider": _provider,
    "hook": _hook,
    "orchestrator": _orchestrator,
    "context": _context,
}
