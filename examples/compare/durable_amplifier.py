"""A durable agent with `amplifier`: a service that may be killed during a turn, on PostgreSQL."""

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import Body, FastAPI
from models_amplifier import calls, scripted

from amplifier import Agent, tool

STORE = Path(os.environ["SUPPORT_STORE"])
ORDER = {"order": 7}
MODEL = scripted(calls("refund", ORDER), calls("send_letter", ORDER), "Order 7 is refunded.")


@tool
def refund(order: int) -> str:
    """Refund an order."""
    with (STORE / "refunds").open("a") as file:
        file.write(f"{order}\n")
    return f"order {order} is refunded"


@tool
def send_letter(order: int) -> str:
    """Send a letter about an order, and wait until it is printed."""
    with (STORE / "letters").open("a") as file:
        file.write(f"{order}\n")
    while not (STORE / "printed").exists():
        time.sleep(0.05)
    return f"the letter about order {order} is on its way"


durable = Agent(MODEL, tools=[refund, send_letter]).durable(os.environ["DATABASE"])


@asynccontextmanager
async def work(_: FastAPI) -> AsyncGenerator[None]:
    async with durable, durable.worker():
        yield


app = FastAPI(lifespan=work)


@app.post("/{key}")
async def submit(key: str, prompt: Annotated[str, Body(embed=True)]) -> str:
    turn = await durable.submit(key, prompt, key=key)
    return turn.turn_id


@app.get("/{key}/{turn_id}")
async def answer(key: str, turn_id: str) -> str:
    return (await durable.turn(key, turn_id).result()).output
