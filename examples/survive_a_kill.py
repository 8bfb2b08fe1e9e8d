"""A durable turn asks before it pays, its worker is killed, and it pays once all the same.

Two workers and a database in a folder that is gone afterwards; the mock stands in for a model.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.signals.signals import Signals

BEGAN = time.monotonic()
PROMPT = 'bash -c "echo paid >> receipts"'
WORKER = (sys.executable, "-u", "-m", "amplifier_runtime.commands.worker", "--database")

Workers = dict[str, subprocess.Popen[str]]


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:5.1f} s  {text}", flush=True)


def plan(folder: Path) -> dict[str, Any]:
    return {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"delay_seconds": 2}}],
        "tools": [{"module": "tool-bash", "config": {"working_dir": str(folder)}}],
    }


def start_worker(url: str) -> tuple[str, subprocess.Popen[str]]:
    worker = subprocess.Popen((*WORKER, url), stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    return worker.stdout.readline().split()[0], worker


async def use(database: Database, folder: Path, workers: Workers) -> None:
    client, signals = Client(database, "me"), Signals(database, "me")
    await client.create_session("s1", plan(folder))
    turn = await client.submit("s1", PROMPT, idempotency_key="first", needs_worker=True)
    say("a turn is submitted; the model is asked")
    async for entry in LogReader(database).tail("me", "s1"):
        if entry.kind == "approval.asked":
            say(f"it asks, and no process waits: {entry.data['prompt'].splitlines()[-1]}")
            await signals.answer(entry.data["approval_id"], "Allow once", by="me")
        elif entry.name == "tool:post":
            killed = (await client.turn(turn.turn_id)).worker_id or ""
            workers[killed].kill()
            say(f"it is allowed and done; {killed[:12]} asks what comes next, and is killed")
        elif entry.kind == "turn.ended":
            break
    turn = await client.result(turn.turn_id)
    say(f"the other worker ends the turn: {turn.answer}")
    receipts = (folder / "receipts").read_text().split()
    say(f"runs {turn.runs}, workers lost {turn.crashes}, receipts {receipts}")


async def main(url: str, folder: Path) -> None:
    database, workers = Database(url), Workers()
    try:
        await migrate(database)
        workers.update(start_worker(url) for _ in range(2))
        say("two workers are there")
        await use(database, folder, workers)
    finally:
        for worker in workers.values():
            worker.terminate()
            worker.communicate()
        database.close()


with tempfile.TemporaryDirectory() as place:
    asyncio.run(main(f"sqlite:///{place}/runtime.sqlite", Path(place)))
