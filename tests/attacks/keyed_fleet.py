"""A worker and a turn that needs a key: a program that the attacks start.

`python keyed_fleet.py URL PLAN_FILE` prints how the turn ended, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from amplifier_runtime.worker_parts import all_parts


async def main(url: str, plan: dict[str, Any]) -> None:
    """Run one turn with everything that is logged on standard error."""
    logging.basicConfig(level=logging.DEBUG)
    database = Database(url)
    await migrate(database)
    settings = WorkerSettings(url, poll_seconds=0.05, parts=all_parts(database))
    async with Worker(settings), asyncio.timeout(120):
        client = Client(database, "acme")
        await client.create_session("s", plan)
        turn = await client.submit("s", "Hello", idempotency_key="k")
        while not turn.is_finished:
            await asyncio.sleep(0.05)
            turn = await client.turn(turn.turn_id)
    sys.stdout.write(json.dumps({"state": turn.state, "answer": turn.answer, "error": turn.error}))
    sys.stdout.flush()
    # As a crash would leave it, with all that SQLite has not yet merged into its file.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
