"""A client whose clock is wrong: a program that the attacks start under `faketime`.

`python skewed_client.py URL ACTION` prints the result of the action as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.store import Store
from amplifier_runtime.limits.rates import set_rate_limit
from amplifier_runtime.log.session_log import LogLimits, sweep_log
from amplifier_runtime.signals.signals import Signals
from amplifier_runtime.worker.liveness import Liveness, remove_retired

TENANT = "acme"
PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"mode": "echo"}}],
}


async def submit(database: Database) -> Any:
    """Submit a turn to a session of its own."""
    client = Client(database, TENANT)
    await client.create_session("skewed", PLAN)
    return (await client.submit("skewed", "x", idempotency_key="k")).turn_id


async def has_worker(database: Database) -> Any:
    """Look for a worker."""
    return await Client(database, TENANT).has_worker()


async def register(database: Database) -> Any:
    """Be a worker, and beat once."""
    liveness = Liveness(database, "skewed", code_version="1", concurrency=1)
    await liveness.register()
    return await liveness.beat()


async def sweep(database: Database) -> Any:
    """Remove logs older than a month, and workers that ended a day ago."""
    retired = await database.run(lambda c: remove_retired(c, 86_400))
    return [await sweep_log(database, LogLimits(days=30)), retired]


async def answer(database: Database) -> Any:
    """Answer the open question."""
    signals = Signals(database, TENANT)
    [question] = await signals.approvals()
    return (await signals.answer(question.approval_id, "Allow", by="somebody")).state


async def write_everything(database: Database) -> Any:
    """Call what writes a time."""
    await Store(database).create_tenant(TENANT)
    await submit(database)
    await register(database)
    await set_rate_limit(database, "mock", requests_per_minute=60)
    client, signals = Client(database, TENANT), Signals(database, TENANT)
    await signals.steer("skewed", "shorter")
    await client.create_session("cancelled", PLAN)
    turn = await client.submit("cancelled", "x", idempotency_key="k")
    await signals.cancel(turn.turn_id)
    return None


_ACTIONS: dict[str, Callable[[Database], Awaitable[Any]]] = {
    each.__name__: each for each in (submit, has_worker, register, sweep, answer, write_everything)
}


async def main(url: str, action: str) -> None:
    """Do one thing."""
    database = Database(url, connections=1)
    try:
        result = await _ACTIONS[action](database)
    finally:
        database.close()
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
