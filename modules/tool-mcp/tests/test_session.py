"""A whole session continues while its server dies, changes and hangs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession


class Screen:
    """Keeps what the user is shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(message)


@pytest.mark.attack("M5")
async def test_a_session_outlives_a_server_that_dies_changes_and_hangs(harness: Any) -> None:
    harness.plan(
        tools=[harness.tool(), harness.tool("die")],
        does={"die": "die"},
        hangs_at_end=True,
        has_child=True,
    )
    names = ["x__say", "x__die", "x__say", "x__die"]
    calls = [{"tool_calls": [{"name": name, "arguments": {"word": name}}]} for name in names]
    config = {
        "servers": {"x": harness.planned()},
        "seen_file": str(harness.workspace.parent / "seen.json"),
        "shutdown_seconds": 0.2,
    }
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"script": [*calls, "Done."]}}],
        "tools": [{"module": "tool-mcp", "config": config}],
    }
    screen = Screen()
    async with asyncio.timeout(120), AmplifierSession(plan, display_system=screen) as session:
        harness.plan(tools=[harness.tool()], hangs_at_end=True, has_child=True)
        answer = await session.execute("Go.")
        messages = await session.coordinator.get_mounted("context").get_messages()
    told = [str(message["content"]) for message in messages if message["role"] == "tool"]

    assert answer == "Done."
    assert '"x__say' in told[0].replace("\\", "")
    assert "Whether the call took effect is not known" in told[1]
    assert '"x__say' in told[2].replace("\\", "")
    assert "there is no tool `x__die`" in told[3]
    assert harness.starts() == 2
    assert harness.processes() == []
    shown = "\n".join(screen.lines)
    assert "MCP server `x` ended in mid-call" in shown
    assert "`die` is not offered: the server has it no more" in shown
    assert "did not end when it was asked to, and was killed" in shown
