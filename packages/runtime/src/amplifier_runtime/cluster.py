"""A cluster on this machine for trying the runtime out: PostgreSQL and three workers on loopback.

`python -m amplifier_runtime.cluster [WORKERS]` runs until Ctrl-C and then deletes all its data.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Generator
from types import FrameType
from typing import NoReturn

from amplifier_runtime.commands.output import say
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate

__all__ = ["EXAMPLE", "cluster", "main"]

WORKERS = 3
# The default `--drain-seconds` and `--leave-seconds` of a worker together.
_LEAVE_SECONDS = 40.0

EXAMPLE = """\
import asyncio
import os
import uuid

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database

PLAN = {
    "session": {"orchestrator": "loop-basic", "context": "context-simple"},
    "providers": [{"module": "provider-mock", "config": {"mode": "echo"}}],
}


async def main() -> None:
    database = Database(os.environ["AMPLIFIER_DATABASE_URL"])
    client = Client(database, tenant_id="home")
    session = str(uuid.uuid4())
    await client.create_session(session, PLAN)
    turn = await client.submit(session, "Hello", idempotency_key="first", needs_worker=True)
    print((await client.result(turn.turn_id)).answer)
    database.close()


asyncio.run(main())
"""


@contextlib.contextmanager
def cluster(workers: int = WORKERS) -> Generator[str]:
    """Start a database and its workers, yield its URL, and drain the workers afterwards."""
    started: list[subprocess.Popen[str]] = []
    with LocalPostgres() as server:
        try:
            asyncio.run(_migrate(server.url))
            for _ in range(workers):
                started.append(_start(server.url))
            for each in started:
                _await_start(each)
            yield server.url
        finally:
            for each in started:
                # All are signalled before the first is waited for, so that they drain in parallel.
                each.terminate()
            for each in started:
                _await_end(each)


async def _migrate(url: str) -> None:
    database = Database(url)
    try:
        await migrate(database)
    finally:
        database.close()


def _start(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "amplifier_runtime.commands.worker", "--database", url],
        stdout=subprocess.PIPE,
        text=True,
        # Keeps Ctrl-C of the terminal from the workers: this process drains them.
        start_new_session=True,
    )


def _await_start(worker: subprocess.Popen[str]) -> None:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError(f"A worker did not start; it ended with {worker.wait()}.")
    say(line.strip())


def _await_end(worker: subprocess.Popen[str]) -> None:
    try:
        worker.wait(_LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
    assert worker.stdout is not None
    worker.stdout.close()


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main(workers: int = WORKERS) -> int:
    """Run a cluster until Ctrl-C or SIGTERM."""
    if sys.platform == "win32":
        # Raises, with the reason.
        LocalPostgres()
        return 1
    # SIGINT too: a shell starts background processes with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    with contextlib.suppress(KeyboardInterrupt), cluster(workers) as url:
        say(f"\nexport AMPLIFIER_DATABASE_URL={url}\n")
        say("amplifier runtime status      shows workers and turns")
        say("kill -9 a worker              and see that its turns continue\n")
        say(f"Submit a turn from Python:\n\n{EXAMPLE}")
        say("Ctrl-C stops everything.")
        while True:
            signal.pause()
    say("Stopped.")
    return 0


if __name__ == "__main__":
    sys.exit(main(int((*sys.argv[1:], WORKERS)[0])))
