"""Several servers in one session, each under its own name."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core import AmplifierSession
from amplifier_core.models import HookResult
from wire.line import LIMIT_SECONDS, QUICK, request, text_of
from wire.server import WireServer
from wire.vendor import Answer
from wire.vendors.chat_completions import ChatCompletions


def entry(name: str, server: WireServer, priority: int) -> dict[str, Any]:
    own = {"name": name, "priority": priority, "default_model": ChatCompletions.model}
    config = {"base_url": f"{server.base_url}/v1", **own, **QUICK}
    return {"module": "provider-chat-completions", "instance_id": name, "config": config}


async def test_a_plan_mounts_two_servers_side_by_side_under_their_names() -> None:
    heard: list[str] = []

    async def hear(_event: str, data: dict[str, Any]) -> HookResult:
        heard.append(data["provider"])
        return HookResult()

    async with (
        asyncio.timeout(LIMIT_SECONDS),
        WireServer(ChatCompletions(), Answer.of("from here")) as here,
        WireServer(ChatCompletions(), Answer.of("from there")) as there,
    ):
        plan = {
            "session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "providers": [entry("local", here, 2), entry("remote", there, 1)],
        }
        async with AmplifierSession(plan) as session:
            session.coordinator.hooks.register("llm:response", hear)
            providers: dict[str, Any] = session.coordinator.get("providers")

            answer = await session.execute("hi")
            other = await providers["local"].complete(request("hi"))

    assert list(providers) == ["local", "remote"]
    assert (answer, text_of(other)) == ("from there", "from here")
    assert (len(here.requests), len(there.requests)) == (1, 1)
    assert heard == ["remote", "local"]
