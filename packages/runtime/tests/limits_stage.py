"""Plans, workers and claimed turns for the tests of what the fleet may ask and spend."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

from amplifier_core.message_models import Usage
from amplifier_kit.calls.call_costs import WorstCase
from amplifier_kit.calls.settings import Pricing
from amplifier_runtime.children.children import Children
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.store import Store
from amplifier_runtime.limits.limits import Limits
from amplifier_runtime.turns.claims import Claim, Claims
from amplifier_runtime.worker.liveness import Liveness
from amplifier_runtime.worker.worker import Worker, WorkerSettings

PRICES = {"steps": Pricing(input=Decimal(3), output=Decimal(15))}
USAGE = {"input_tokens": 3_000, "output_tokens": 200, "total_tokens": 3_200}
USED = Decimal(3 * 3_000 + 15 * 200) / 1_000_000
PLAN: dict[str, Any] = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}


def price(usage: Usage) -> Decimal:
    return Decimal(usage.output_tokens) / 1_000


# At most a dollar for each: a thousandth for each token of its answer.
CALL = WorstCase(price, input_tokens=0, wanted=1_000)


def plan(*steps: Any, trace: Path | None = None, **sections: Any) -> dict[str, Any]:
    config = {"steps": list(steps), "usage": USAGE, **({"trace": str(trace)} if trace else {})}
    loop = {"module": "loop-basic", "config": {"stuck_after": 0, "max_iterations": 50}}
    return {
        "session": {"orchestrator": loop, "context": "context-simple"},
        "providers": [{"module": "provider-steps", "config": config}],
        "tools": [{"module": "tool-task"}],
        **sections,
    }


def status_call(number: int) -> dict[str, Any]:
    return {"tool_calls": [{"id": f"s{number}", "name": "task_status", "arguments": {}}]}


def worker(url: str) -> Worker:
    parts = [Limits(prices=PRICES), Children(look_seconds=0.05)]
    return Worker(WorkerSettings(url, poll_seconds=0.02, drain_seconds=0.5, parts=parts))


async def claimed(database: Database, *sessions: str, worker_id: str = "w") -> list[Claim]:
    """Have turns run by a worker that does nothing."""
    for session in sessions:
        await Store(database).create_session("t", session, PLAN)
        await Store(database).submit("t", session, "p", idempotency_key="k")
    await Liveness(database, worker_id, code_version="1", concurrency=9).register()
    return await claims(database, worker_id).take(9)


def claims(database: Database, worker_id: str = "w") -> Claims:
    return Claims(database, worker_id, ["1"])


async def answer(client: Client, session: str, given: dict[str, Any], key: str = "k") -> str:
    await client.create_session(session, given)
    turn = await client.submit(session, "Go on.", idempotency_key=key)
    async with asyncio.timeout(120):
        return (await client.result(turn.turn_id)).answer or ""
