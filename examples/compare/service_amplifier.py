"""A service with `amplifier`: server-sent events, stored conversations, ten model calls a user."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Body, FastAPI
from fastapi.sse import EventSourceResponse, ServerSentEvent
from models_amplifier import CALLS_TOOLS

from amplifier import Agent, Budget, Context, Done, TextDelta, ToolEnded, ToolStarted, tool

STORE = Path(os.environ["SUPPORT_STORE"])
budgets: dict[str, Budget] = {}
app = FastAPI()


@dataclass
class Customer:
    name: str


@tool(effect="pure")
async def look_up(context: Context[Customer], order: int) -> dict[str, object]:
    """Look up an order."""
    return {"order": order, "customer": context.deps.name}


@tool(effect="pure")
async def track(order: int) -> str:
    """Ask the carrier where a parcel is, which takes a few seconds."""
    await asyncio.sleep(5)
    return f"order {order} is on its way"


agent = Agent(CALLS_TOOLS, tools=[look_up, track], deps=Customer)


def budget_file(user: str) -> Path:
    return STORE / f"{user}-budget.json"


def budget_of(user: str) -> Budget:
    if user not in budgets:
        file = budget_file(user)
        state = json.loads(file.read_text()) if file.is_file() else None
        budgets[user] = Budget(calls=10, state=state)
    return budgets[user]


@app.post("/{user}/{conversation}", response_class=EventSourceResponse)
async def answer(
    user: str, conversation: str, prompt: Annotated[str, Body(embed=True)]
) -> AsyncIterator[ServerSentEvent]:
    budget = budget_of(user)
    opening = agent.session(
        f"{user}-{conversation}", deps=Customer(user), store=STORE, budget=budget
    )
    try:
        async with opening as session, aclosing(session.stream(prompt)) as stream:
            async for event in stream:
                match event:
                    case TextDelta(text):
                        yield ServerSentEvent(event="token", data=text)
                    case ToolStarted(name):
                        yield ServerSentEvent(event="tool", data=name)
                    case ToolEnded(_, output, error):
                        yield ServerSentEvent(event="result", data=error or output)
                    case Done(stop_reason=reason):
                        yield ServerSentEvent(event="done", data=reason)
                    case _:
                        pass
    finally:
        budget_file(user).write_text(json.dumps(budget.state))


@app.get("/{user}/{conversation}")
async def prompts(user: str, conversation: str) -> list[str]:
    name = f"{user}-{conversation}"
    async with agent.session(name, deps=Customer(user), store=STORE) as session:
        return [each["content"] for each in await session.messages() if each["role"] == "user"]


@app.get("/{user}")
async def used_calls(user: str) -> int:
    return budget_of(user).used_calls
