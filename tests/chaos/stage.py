"""What a worker mounts into every session of a run: the model, and tools that leave a trace."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from amplifier_core import events
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    Message,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from amplifier_core.models import HookResult, ProviderInfo, ToolResult
from amplifier_kit.calls.block_stream import BlockStream
from amplifier_runtime.turns.journal import latest_model_call
from amplifier_runtime.turns.turn_run import TurnPart, TurnRun

_EFFECTS = {"price": "pure", "stock": "idempotent", "pay": "unsafe", "check": "pure"}
_LONGEST_WORK_SECONDS = 0.15
_LONG = 1_000_000.0


class Trace:
    """A file that is only ever appended to, one line at a time, by any process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, *words: Any) -> None:
        """Append a line, whole."""
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, (" ".join(map(str, words)) + "\n").encode())
        os.close(handle)

    def lines(self) -> list[list[str]]:
        """Return the words of each line."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        return [line.split(" ") for line in text.splitlines()]


class RemoteModel:
    """Asks the vendor; streams when it is asked to, and shows the words as they come anyway."""

    name = "remote"

    def __init__(self, run: TurnRun, port: int) -> None:
        self._run = run
        self._port = port

    def get_info(self) -> ProviderInfo:
        defaults = {"model": "remote", "max_output_tokens": 300, "context_window": 100_000}
        return ProviderInfo(id="remote", display_name="Remote", defaults=defaults)

    async def list_models(self) -> list[Any]:
        return []

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        stream = BlockStream(self._run.session.coordinator.hooks)
        await stream.start(0, "text")
        text, calls = "", list[ToolCall]()
        async for line in self._lines(request):
            if "text" in line:
                text += line["text"]
                await stream.delta(0, line["text"])
            else:
                calls = [ToolCall(**each) for each in line["calls"]]
        await stream.end(0)
        blocks = [ToolCallBlock(id=each.id, name=each.name, input=each.arguments) for each in calls]
        return ChatResponse(
            content=[TextBlock(text=text), *blocks],
            tool_calls=calls or None,
            usage=_usage(request, text),
            finish_reason="tool_use" if calls else "stop",
        )

    async def stream(self, request: ChatRequest, **kwargs: Any) -> AsyncIterator[dict[str, Any]]:
        text = ""
        async for line in self._lines(request):
            if "text" in line:
                text += line["text"]
                yield {"content": line["text"]}
            else:
                calls = [ToolCall(**each) for each in line["calls"]]
                usage = _usage(request, text)
                yield {"tool_calls": calls, "usage": usage, "finish_reason": "stop"}

    async def _lines(self, request: ChatRequest) -> AsyncIterator[dict[str, Any]]:
        call, claim = latest_model_call(), self._run.claim
        assert call is not None
        asked = {
            "session_id": claim.session_id,
            "turn_id": claim.turn_id,
            "epoch": claim.epoch,
            "key": call.key,
            "messages": [_plain(each) for each in request.messages],
        }
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(json.dumps(asked).encode() + b"\n")
            line: dict[str, Any] = {}
            while "calls" not in line:
                line = json.loads(await reader.readuntil())
                yield line
        finally:
            writer.close()


def _plain(message: Message) -> dict[str, Any]:
    content: Any = message.content
    if isinstance(content, str):
        return {"role": message.role, "text": content, "call_id": message.tool_call_id}
    texts = [str(getattr(each, "text", None) or getattr(each, "output", "")) for each in content]
    call_ids = [getattr(each, "tool_call_id", None) for each in content]
    call_id = message.tool_call_id or next(filter(None, call_ids), None)
    return {"role": message.role, "text": " ".join(texts).strip(), "call_id": call_id}


def _usage(request: ChatRequest, text: str) -> Usage:
    asked = len(request.model_dump_json(fallback=str)) // 4
    answered = len(text) // 4 + 50
    return Usage(input_tokens=asked, output_tokens=answered, total_tokens=asked + answered)


class TracedTool:
    """A tool that takes its time before and after its effect."""

    description = "A tool."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, name: str, run: TurnRun, trace: Trace, seed: int) -> None:
        self.name = name
        self.effect = _EFFECTS[name]
        self._run = run
        self._trace = trace
        self._seed = seed

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        dice = random.Random(f"{self._seed}/{input['call_id']}")
        await asyncio.sleep(dice.uniform(0.0, _LONGEST_WORK_SECONDS))
        output = self._work(input["call_id"])
        await asyncio.sleep(dice.uniform(0.0, _LONGEST_WORK_SECONDS))
        return ToolResult(output=output)

    def _work(self, call_id: str) -> str:
        claim = self._run.claim
        if self.name == "check":
            paid = ["pay", claim.turn_id] in [line[:2] for line in self._trace.lines()]
            return "is paid" if paid else "not paid"
        self._trace.note(self.name, claim.turn_id, call_id, claim.epoch)
        return {"price": "42", "stock": "7", "pay": "receipt"}[self.name]


class Stage(TurnPart):
    """Mounts the model and the tools, and asks before it pays where the model wants that."""

    def __init__(self, port: int, trace: Trace, seed: int) -> None:
        self._port = port
        self._trace = trace
        self._seed = seed

    async def prepare(self, run: TurnRun) -> None:
        coordinator = run.session.coordinator
        await coordinator.mount("providers", RemoteModel(run, self._port), name="remote")
        for name in _EFFECTS:
            tool = TracedTool(name, run, self._trace, self._seed)
            await coordinator.mount("tools", tool, name=name)

    async def attach(self, run: TurnRun) -> None:
        run.session.coordinator.hooks.register(events.TOOL_PRE, ask_before_paying)


async def ask_before_paying(event: str, data: dict[str, Any]) -> HookResult:
    """Put the question that a person decides."""
    if data["tool_name"] != "pay" or not data["tool_input"].get("ask"):
        return HookResult()
    return HookResult(
        action="ask_user",
        approval_prompt="Pay?",
        approval_timeout=_LONG,
        approval_default="deny",
    )
