"""A durable batch: twelve orders are looked up, and the worker is killed in the middle of it.

The next worker takes over what the first one had begun; every order is answered once.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from shop import agent

ORDERS = range(1, 13)


async def work(database: str) -> None:
    async with agent.durable(database) as durable, durable.worker(concurrency=4):
        await asyncio.Event().wait()


def start_worker(database: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, database])


async def main(folder: Path) -> None:
    database = f"sqlite:///{folder / 'batch.sqlite'}"
    async with agent.durable(database) as durable:
        turns = [
            await durable.submit(f"order-{each}", f"Please find order {each}.", key="found")
            for each in ORDERS
        ]
        first = start_worker(database)
        await turns[0].result()
        first.kill()
        print("killed a worker after", 1, "answer or more")
        second = start_worker(database)
        done = [await each.result() for each in turns]
        second.terminate()
        second.wait()
    print(len({each.output for each in done}), "different answers")
    print(done[6].output)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(work(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            asyncio.run(main(Path(name)))
