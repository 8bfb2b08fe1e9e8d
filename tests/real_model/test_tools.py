"""A real model calls a real tool, which reads a real file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.models import ToolResult
from real_model.running import RealModel

pytestmark = pytest.mark.realmodel


class ReadFile:
    """Reads text files in one folder."""

    name = "read_file"
    description = "Read a text file"
    input_schema: dict[str, Any] = {
        "type": "object",
        "properties": {"path": {"type": "string", "maxLength": 40}},
        "required": ["path"],
        "additionalProperties": False,
    }

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.asked_for: list[str] = []

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.asked_for.append(input["path"])
        return ToolResult(success=True, output=(self._folder / input["path"]).read_text("utf-8"))


def shown(number: int, path: str, text: str) -> list[dict[str, Any]]:
    """Return an earlier turn in which a file was read: a model this small needs examples."""
    call_id = f"example-{number}"
    return [
        {"role": "user", "content": f"Read the file {path}"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": call_id, "tool": "read_file", "arguments": {"path": path}}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": text},
        {"role": "assistant", "content": f"The file {path} says: {text}"},
    ]


async def test_the_model_calls_a_tool_and_answers_with_its_result(
    open_session: Any, model: RealModel, tmp_path: Path
) -> None:
    (tmp_path / "plan.txt").write_text("Amplifier is a kernel", "utf-8")
    # The token that opens a call is favoured, and the answer does not depend on earlier tests.
    extra: dict[str, Any] = {"logit_bias": {"13": 12}, "cache_prompt": False}
    session, recorder = await open_session("provider-chat-completions", extra_body=extra)
    coordinator = session.coordinator
    # A model this small is confused by a second tool, which a context may bring along.
    for name in list(coordinator.get("tools")):
        await coordinator.unmount("tools", name)
    tool = ReadFile(tmp_path)
    await coordinator.mount("tools", tool)
    context = coordinator.get("context")
    await context.set_messages(
        [*shown(1, "notes.txt", "buy milk"), *shown(2, "todo.md", "fix the bug")]
    )

    async with asyncio.timeout(120):
        answer = await session.execute("Read the file plan.txt")

    assert tool.asked_for == ["plan.txt"]
    assert "Amplifier is a kernel" in answer
    *_, _, call, result, _ = await context.get_messages()
    assert call["tool_calls"][0]["id"] == result["tool_call_id"]
    assert "Amplifier is a kernel" in result["content"]
    blocks = [data["block_type"] for _, data in recorder.get_events("llm:stream_block_start")]
    assert blocks == ["tool_use", "text"]
    [first, second] = [data["usage"] for _, data in recorder.get_events("llm:response")]
    assert second["input_tokens"] > first["input_tokens"]
