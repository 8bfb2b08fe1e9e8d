"""A whole session: a loop, a memory and a tool of the repository over the wire."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockTool
from wire.line import LIMIT_SECONDS, QUICK
from wire.server import WireServer
from wire.vendor import Answer, Block, Cut, Text, Thinking, ToolUse, Vendor


def plan(vendor: Vendor, base_url: str) -> dict[str, Any]:
    provider = {"module": vendor.module_id, "config": {**vendor.config(base_url), **QUICK}}
    return {
        "session": {
            "orchestrator": {"module": "loop-basic"},
            "context": {"module": "context-simple"},
        },
        "providers": [provider],
    }


async def test_a_turn_with_a_tool_a_fault_and_a_thought_ends_well(vendor: Vendor) -> None:
    thoughts: list[Block] = [Thinking("hm hm", "c2ln")] if "thinking" in vendor.features else []
    call = Answer([*thoughts, ToolUse("call_1", "read_file", '{"path": "a"}')], finish="tool_calls")
    final = Answer([Text("It says hello.")])
    tool = MockTool("read_file", "hello")
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        WireServer(vendor, call, Cut(final, "says"), final) as server,
        AmplifierSession(plan(vendor, server.base_url)) as session,
    ):
        await session.coordinator.mount("tools", tool, name="read_file")

        answer = await session.execute("What does it say?")

    assert answer == "It says hello."
    assert tool.last_input == {"path": "a"}
    assert len(server.requests) == 3
    sent = server.requests[-1].body
    assert [(each.id, each.text) for each in vendor.sent_tool_results(sent)] == [
        ("call_1", "hello")
    ]
    assert vendor.sent_checked_fields(sent) == vendor.checked_fields(call)
