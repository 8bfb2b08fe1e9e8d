"""A call that is cancelled in mid-stream is charged what the vendor had reported by then."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.models import HookResult
from wire.line import LIMIT_SECONDS, QUICK
from wire.server import WireServer
from wire.vendor import Answer, Stall, Vendor

WORDS = Answer.of("alpha beta gamma delta", input=1_000, output=20)
INPUT = WORDS.usage.input
MOST_OUTPUT = 4_096
# What the worst case of every request has for the instructions that vendors add.
UNSEEN = 1_024


class Cancelled(NamedTuple):
    """What the budget shows after a cancelled call."""

    tokens: Decimal
    usd: Decimal
    events: list[dict[str, Any]]


async def cancel_in_mid_stream(vendor: Vendor, **budget: Any) -> Cancelled:
    """Cancel a turn when the first words of its answer have arrived."""
    prices = {vendor.id: {"input": 1, "output": 10}}
    spoken = asyncio.Event()
    events: list[dict[str, Any]] = []

    async def hear(event: str, data: dict[str, Any]) -> HookResult:
        spoken.set()
        return HookResult()

    async def record(event: str, data: dict[str, Any]) -> HookResult:
        events.append(dict(data))
        return HookResult()

    async with asyncio.timeout(LIMIT_SECONDS), WireServer(vendor, Stall(WORDS, "beta")) as server:
        config = {**vendor.config(server.base_url), **QUICK, "max_output_tokens": MOST_OUTPUT}
        plan = {
            "session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "providers": [{"module": vendor.module_id, "config": config}],
            "hooks": [{"module": "hooks-budget", "config": {"prices": prices, **budget}}],
        }
        async with AmplifierSession(plan) as session:
            session.coordinator.hooks.register("llm:stream_block_delta", hear, name="hear")
            session.coordinator.hooks.register("provider:call_cancelled", record, name="record")
            turn = asyncio.create_task(session.execute("hi"))
            await spoken.wait()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            status: Any = session.coordinator.get_capability("budget.status")
            used = status()["used"]
            assert status()["held"]["tokens"] == "0"
    return Cancelled(Decimal(used["tokens"]), Decimal(used["usd"]), events)


@pytest.mark.needs("early_usage")
async def test_reported_input_and_the_most_that_was_written_is_charged(vendor: Vendor) -> None:
    charged = await cancel_in_mid_stream(vendor, usd=1, tokens=100_000)

    [event] = charged.events
    assert INPUT < charged.tokens <= INPUT + MOST_OUTPUT
    assert charged.usd == (INPUT + 10 * (charged.tokens - INPUT)) / 1_000_000
    assert event["provider"] == vendor.id
    assert event["usage"]["input_tokens"] == INPUT
    if event["output"] == "estimated":
        # At most a token for each byte that arrived, and what was on its way.
        assert charged.tokens <= INPUT + len("alpha beta ") + 256


@pytest.mark.needs("early_usage")
async def test_nothing_is_given_back_where_reports_are_not_trusted(vendor: Vendor) -> None:
    charged = await cancel_in_mid_stream(vendor, tokens=100_000, settle="worst_case")

    assert charged.tokens > MOST_OUTPUT + UNSEEN


@pytest.mark.lacks("early_usage")
async def test_without_a_report_the_worst_case_is_charged(vendor: Vendor) -> None:
    charged = await cancel_in_mid_stream(vendor, usd=1, tokens=100_000)

    assert charged.tokens > MOST_OUTPUT + UNSEEN
    assert charged.events == []
