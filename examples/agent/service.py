"""A support service: answers stream as server-sent events, and conversations survive a restart.

    uvicorn --app-dir examples/agent service:app

Each user may have ten model calls. A client that disconnects cancels its turn.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import fastapi
from fastapi.sse import EventSourceResponse, ServerSentEvent

from amplifier import (
    Agent,
    Budget,
    Context,
    Done,
    Session,
    SessionOpenError,
    Sessions,
    TextDelta,
    ToolEnded,
    ToolStarted,
    tool,
)

STORE = Path(os.environ.get("SUPPORT_STORE", "support-data"))
CALLS = 10
Name = Annotated[str, fastapi.Path(pattern="^[a-z0-9]{1,40}$")]


@dataclass
class Customer:
    name: str


@tool(effect="pure")
async def look_up(context: Context[Customer], order: int) -> dict[str, object]:
    """Look up an order."""
    return {"order": order, "customer": context.deps.name}


@tool(effect="pure", timeout=60)
async def track(order: int) -> str:
    """Ask the carrier where a parcel is, which takes a few seconds."""
    await asyncio.sleep(5)
    return f"order {order} is on its way"


agent = Agent(
    {"module": "provider-mock", "config": {"stream": True}},
    instructions="You help the customers of a shop.",
    tools=[look_up, track],
    deps=Customer,
)
budgets: dict[str, Budget] = {}
app = fastapi.FastAPI()


def state_file(user: str) -> Path:
    return STORE / "budgets" / f"{user}.json"


def budget_of(user: str) -> Budget:
    if user not in budgets:
        file = state_file(user)
        state = json.loads(file.read_text("utf-8")) if file.is_file() else None
        budgets[user] = Budget(calls=CALLS, state=state)
    return budgets[user]


def save_budget(user: str) -> None:
    file = state_file(user)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(budgets[user].state), "utf-8")


def conversation_of(user: Name, conversation: Name) -> AbstractAsyncContextManager[Session]:
    return agent.session(
        f"{user}-{conversation}", deps=Customer(user), store=STORE, budget=budget_of(user)
    )


Conversation = Annotated[AbstractAsyncContextManager[Session], fastapi.Depends(conversation_of)]


@app.post("/{user}/{conversation}", response_class=EventSourceResponse)
async def answer(
    user: Name, opening: Conversation, prompt: Annotated[str, fastapi.Body(embed=True)]
) -> AsyncIterator[ServerSentEvent]:
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
    except SessionOpenError:
        yield ServerSentEvent(event="error", data="This conversation is being answered.")
    finally:
        save_budget(user)


@app.get("/{user}/{conversation}")
def messages(user: Name, conversation: Name) -> list[dict[str, object]]:
    return Sessions(STORE).messages(f"{user}-{conversation}")
