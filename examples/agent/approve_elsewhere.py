"""A payment that waits for a yes from another process.

One process submits the turn and ends; a worker runs it and parks it at the question; a third
process, which was started later, reads the question and answers it.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from shop import Shop, agent

from amplifier import Done, Question


async def submit(database: str, ledger: str) -> None:
    async with agent.durable(database) as durable:
        deps = Shop(ledger)
        turn = await durable.submit("orders", "Please pay order 7.", key="order-7", deps=deps)
        print(turn.turn_id)


async def work(database: str) -> None:
    async with agent.durable(database) as durable, durable.worker():
        await asyncio.Event().wait()


async def approve(database: str, turn_id: str) -> None:
    async with agent.durable(database) as durable:
        async for event in durable.turn("orders", turn_id).stream():
            match event:
                case Question(prompt, _, answer):
                    print("asked:", prompt.splitlines()[0])
                    await answer("Allow once")
                case Done(output):
                    print("answer:", output)
                case _:
                    pass


def in_another_process(*arguments: str) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main(folder: Path) -> None:
    database = f"sqlite:///{folder / 'shop.sqlite'}"
    turn_id = in_another_process("submit", database, str(folder / "ledger"))
    worker = subprocess.Popen([sys.executable, __file__, "work", database])
    try:
        print(in_another_process("approve", database, turn_id))
    finally:
        worker.terminate()
        worker.wait()
    print("ledger:", (folder / "ledger").read_text("utf-8").strip())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["submit", database, ledger]:
            asyncio.run(submit(database, ledger))
        case ["work", database]:
            asyncio.run(work(database))
        case ["approve", database, turn_id]:
            asyncio.run(approve(database, turn_id))
        case _:
            with tempfile.TemporaryDirectory() as name:
                main(Path(name))
