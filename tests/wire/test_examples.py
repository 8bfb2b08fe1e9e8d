"""The mount plans in `examples/providers` run as they are; only the vendor's address is ours."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from wire.server import WireServer
from wire.vendor import Answer, Refuse
from wire.vendors import VENDORS

EXAMPLES = Path(__file__).parents[2] / "examples"
PLANS = {path.stem: path for path in sorted(EXAMPLES.glob("providers/*.json"))}
# Where each module takes its vendor's address from when the plan has none.
ADDRESS_VARIABLES = {
    "provider-anthropic": "ANTHROPIC_BASE_URL",
    "provider-openai": "OPENAI_BASE_URL",
    "provider-chat-completions": "OPENAI_BASE_URL",
    "provider-gemini": "GOOGLE_GEMINI_BASE_URL",
}
BY_MODULE = {vendor.module_id: vendor for vendor in VENDORS}


async def run(plan: str, *servers: WireServer) -> tuple[str, str]:
    """Run a plan in a process of its own; returns what it printed, and its complaints."""
    environment: dict[str, str] = {}
    for server in servers:
        vendor = server.vendor
        environment[vendor.key_variables[0]] = "a-key-for-tests"
        address = vendor.config(server.base_url)["base_url"]
        environment[ADDRESS_VARIABLES[vendor.module_id]] = address
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLES / "run_plan.py"),
        str(PLANS[plan]),
        "Hello",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        async with asyncio.timeout(120):
            printed, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return printed.decode(), complaints.decode()


def test_every_provider_has_a_plan() -> None:
    plans = [json.loads(path.read_text(encoding="utf-8")) for path in PLANS.values()]
    used = {entry["module"] for plan in plans for entry in plan["providers"]}

    assert used == {"provider-failover", *ADDRESS_VARIABLES}


@pytest.mark.parametrize("plan", sorted(PLANS.keys() - {"failover"}))
async def test_the_plan_of_a_provider_answers(plan: str) -> None:
    vendor = BY_MODULE[f"provider-{plan}"]

    async with WireServer(vendor, Answer.of("Good morning.")) as server:
        printed, complaints = await run(plan, server)

    assert printed == "Good morning.\n", complaints
    assert [said.text for said in vendor.sent_texts(server.sent)] == ["Hello"]


async def test_the_plan_of_the_failover_goes_on_with_the_second() -> None:
    first = WireServer(BY_MODULE["provider-anthropic"], Refuse(401, "auth"))
    second = WireServer(BY_MODULE["provider-openai"], Answer.of("Good morning."))

    async with first, second:
        printed, complaints = await run("failover", first, second)

    assert printed == "Good morning.\n", complaints
    assert "continuing with openai for 5 min" in complaints
