"""A durable agent with pydantic-ai: a service that may be killed during a turn, on PostgreSQL."""

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from dbos import DBOS, SetWorkflowID, WorkflowHandleAsync
from fastapi import Body, FastAPI
from models_pydantic_ai import calls, scripted
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability

STORE = Path(os.environ["SUPPORT_STORE"])
ORDER = {"order": 7}
MODEL = scripted(calls("refund", ORDER), calls("send_letter", ORDER), "Order 7 is refunded.")
agent = Agent(MODEL, name="shop", capabilities=[DBOSDurability()])


@agent.tool_plain
@DBOS.step()
def refund(order: int) -> str:
    """Refund an order."""
    with (STORE / "refunds").open("a") as file:
        file.write(f"{order}\n")
    return f"order {order} is refunded"


@agent.tool_plain
@DBOS.step()
def send_letter(order: int) -> str:
    """Send a letter about an order, and wait until it is printed."""
    with (STORE / "letters").open("a") as file:
        file.write(f"{order}\n")
    while not (STORE / "printed").exists():
        time.sleep(0.05)
    return f"the letter about order {order} is on its way"


@DBOS.workflow()
async def run(prompt: str) -> str:
    return (await agent.run(prompt)).output


@asynccontextmanager
async def work(_: FastAPI) -> AsyncGenerator[None]:
    DBOS(config={"name": "shop", "system_database_url": os.environ["DATABASE"]})
    DBOS.launch()
    yield
    DBOS.destroy()


app = FastAPI(lifespan=work)


@app.post("/{key}")
async def submit(key: str, prompt: Annotated[str, Body(embed=True)]) -> str:
    with SetWorkflowID(key):
        turn = await DBOS.start_workflow_async(run, prompt)
    return turn.workflow_id


@app.get("/{key}/{turn_id}")
async def answer(key: str, turn_id: str) -> str:
    turn: WorkflowHandleAsync[str] = await DBOS.retrieve_workflow_async(turn_id)
    return await turn.get_result()
