"""Whole sessions with each context: a large result is read again, and a conversation resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.errors import SessionError
from amplifier_core.models import ToolResult

LINES = "".join(f"line {number}\n" for number in range(1, 5_001))


class LogTool:
    """Returns more than a conversation should hold."""

    name = "log"
    description = "Read the log."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(output=LINES)


def plan(module_id: str, config: dict[str, Any], script: list[Any]) -> dict[str, Any]:
    provider = {"module": "provider-mock", "config": {"mode": "scripted", "script": script}}
    return {
        "session": {"orchestrator": "loop-basic", "context": module_id},
        "context": {"config": config},
        "providers": [provider],
    }


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": tool, "arguments": arguments}]}


@pytest.fixture
def config(module_id: str, tmp_path: Path) -> dict[str, Any]:
    """What each context needs to be told in a test."""
    is_on_file = module_id == "context-persistent"
    return {"path": str(tmp_path / "conversation.jsonl")} if is_on_file else {}


async def test_a_model_reads_a_large_result_by_its_handle(
    module_id: str, config: dict[str, Any]
) -> None:
    handle = "result-3344ded10f84"
    script = [call("log"), call("read_result", handle=handle, range="4000-4001"), "Done."]

    async with AmplifierSession(plan(module_id, config, script), session_id="s") as session:
        await session.coordinator.mount("tools", LogTool())
        assert await session.execute("What is in line 4000?") == "Done."
        messages = await session.coordinator.get_mounted("context").get_messages()

    spilled, part = (each["content"] for each in messages if each["role"] == "tool")
    assert spilled.startswith(f"[{handle}: a result of {len(LINES)} characters")
    assert part.endswith("\nline 4000\nline 4001\n")


async def test_a_session_resumes_from_its_file_and_is_open_once(tmp_path: Path) -> None:
    config = {"path": str(tmp_path / "conversation.jsonl")}

    async with AmplifierSession(
        plan("context-persistent", config, ["One."]), session_id="s"
    ) as session:
        await session.execute("First?")
        with pytest.raises(SessionError, match="is open in process"):
            await AmplifierSession(
                plan("context-persistent", config, []), session_id="s"
            ).initialize()
    async with AmplifierSession(
        plan("context-persistent", config, ["Two."]), session_id="s"
    ) as session:
        await session.execute("Second?")
        messages = await session.coordinator.get_mounted("context").get_messages()

    said = [each["content"] for each in messages if each["role"] == "user"]
    assert said == ["First?", "Second?"]
    assert len(messages) == 4
