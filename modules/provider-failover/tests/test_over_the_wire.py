"""A turn that one vendor began is finished by another, each with its own SDK and wire format."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession, MockTool
from wire.server import WireServer
from wire.vendor import Answer, Block, Refuse, Text, Thinking, ToolUse, Vendor
from wire.vendors import VENDORS

PAIRS = list(zip(VENDORS, (*VENDORS[1:], VENDORS[0]), strict=True))
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBmaXJzdCB2ZW5kb3I="


def entry(server: WireServer) -> dict[str, Any]:
    config = {**server.vendor.config(server.base_url), "max_retries": 0}
    return {"module": server.vendor.module_id, "config": config}


def name_of(vendor: Vendor) -> str:
    return vendor.module_id.removeprefix("provider-")


@pytest.mark.parametrize(
    ("first", "second"), PAIRS, ids=[f"{one.id} to {other.id}" for one, other in PAIRS]
)
async def test_a_turn_that_one_vendor_began_is_finished_by_another(
    first: Vendor, second: Vendor
) -> None:
    signature = SIGNATURE if "signature" in first.features else ""
    thought: list[Block] = [Thinking("Hm.", signature)] if "thinking" in first.features else []
    call = ToolUse("call_1", "weather", '{"city": "Paris"}')
    began = WireServer(first, Answer([*thought, call], finish="tool_calls"), Refuse(401, "auth"))
    finished = WireServer(second, Answer([Text("It is sunny.")]))
    tool = MockTool("weather", "sun")

    async with began, finished:
        names = [name_of(first), name_of(second)]
        failover = {"module": "provider-failover", "config": {"providers": names}}
        plan = {
            "session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "providers": [failover, entry(began), entry(finished)],
        }
        async with asyncio.timeout(120), AmplifierSession(plan) as session:
            await session.coordinator.mount("tools", tool)
            answer = await session.execute("What is the weather?")

    assert answer == "It is sunny."
    assert tool.call_count == 1
    [sent_call] = second.sent_tool_calls(finished.sent)
    assert (sent_call.name, sent_call.arguments) == ("weather", {"city": "Paris"})
    [result] = second.sent_tool_results(finished.sent)
    assert (result.id, result.text) == (sent_call.id, "sun")
    assert SIGNATURE.encode() not in finished.requests[-1].raw
