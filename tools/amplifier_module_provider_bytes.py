"""A model and a tool that say what a script has for them, for `fuzz_bytes.py`.

Like a real server, the model refuses a request that cannot be written as UTF-8. Nothing here has a
state of its own: what is answered follows from the request, so it can be continued anywhere.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from amplifier_core.models import ProviderInfo, ToolResult
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_sandbox.platforms.signals import KILL

__amplifier_module_type__ = "provider"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the model and its tool."""
    script = Script(config or {})
    await coordinator.mount("providers", Model(script, coordinator), name="bytes")
    await coordinator.mount("tools", Tool(script), name="speak")


class Script:
    """What is said, and where the process is killed: once, the first time it comes there."""

    def __init__(self, config: dict[str, Any]) -> None:
        script: dict[str, Any] = json.loads(config["script"])
        self.answers: list[dict[str, Any]] = script["answers"]
        self.results: list[dict[str, Any]] = script["results"]
        self._killed_at = config.get("killed_at")
        self._killed = Path(config["killed"])

    def reach(self, place: str) -> None:
        """Kill this process if this is the place for it."""
        if place == self._killed_at and not self._killed.exists():
            self._killed.touch()
            os.kill(os.getpid(), KILL)


class Model:
    """Gives the answer of the script that comes after those in the request."""

    name = "bytes"

    def __init__(self, script: Script, coordinator: Any) -> None:
        self._script = script
        self._coordinator = coordinator

    def get_info(self) -> ProviderInfo:
        """Describe it."""
        defaults = {"model": "bytes", "context_window": 1_000_000, "max_output_tokens": 1_000}
        return ProviderInfo(id="bytes", display_name="Bytes", defaults=defaults)

    async def list_models(self) -> list[Any]:
        """Return no models."""
        return []

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return response.tool_calls or []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Send the request nowhere, and say what comes next."""
        sent = [each.model_dump(mode="python", exclude_none=True) for each in request.messages]
        json.dumps(sent, ensure_ascii=False, allow_nan=False, default=str).encode()
        at = sum(each.role == "assistant" for each in request.messages)
        self._script.reach(f"model {at}")
        answers = self._script.answers
        answer: dict[str, Any] = {"pieces": ["the end"], "calls": []}
        if at < len(answers):
            answer = answers[at]
        pieces: list[str] = answer["pieces"]
        stream = BlockStream(self._coordinator.hooks)
        if pieces:
            await stream.start(0, "text")
            for piece in pieces:
                await stream.delta(0, piece)
            await stream.end(0)
        calls = [ToolCall(**each) for each in answer["calls"]]
        content: list[Any] = [TextBlock(text="".join(pieces))] if pieces else []
        content += [ToolCallBlock(id=c.id, name=c.name, input=c.arguments) for c in calls]
        return ChatResponse(
            content=content,
            tool_calls=calls or None,
            usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
            finish_reason="tool_calls" if calls else "stop",
        )


class Tool:
    """Returns the result of the script that it is asked for."""

    name = "speak"
    description = "Says something."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, script: Script) -> None:
        self._script = script

    async def execute(self, input: dict[str, Any]) -> Any:  # noqa: A002 - contract name
        """Say it."""
        number: int = input["result"]
        self._script.reach(f"tool {number}")
        result = self._script.results[number]
        kind, value = result["kind"], result["value"]
        self._script.reach(f"tool {number} after")
        if kind == "raised":
            raise RuntimeError(value)
        if kind == "plain":
            return value
        if kind == "error":
            return ToolResult(success=False, output=value, error={"message": value})
        if kind == "content":
            return ToolResult(success=True, output=value, content=[TextBlock(text=value)])
        return ToolResult(success=True, output=value)
