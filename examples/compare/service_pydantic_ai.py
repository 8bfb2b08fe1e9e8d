"""A service with pydantic-ai: server-sent events, stored conversations, ten model calls a user."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Body, FastAPI
from fastapi.sse import EventSourceResponse, ServerSentEvent
from models_pydantic_ai import CALLS_TOOLS
from pydantic import TypeAdapter
from pydantic_ai import (
    Agent,
    AgentRunResultEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    PartDeltaEvent,
    PartStartEvent,
    RunContext,
    RunUsage,
    TextPart,
    TextPartDelta,
    UsageLimitExceeded,
    UsageLimits,
)
from pydantic_ai.messages import ModelRequest, UserPromptPart, repair_messages

STORE = Path(os.environ["SUPPORT_STORE"])
LIMITS = UsageLimits(request_limit=10)
USAGE = TypeAdapter(RunUsage)
usages: dict[str, RunUsage] = {}
app = FastAPI()


@dataclass
class Customer:
    name: str


agent = Agent(CALLS_TOOLS, deps_type=Customer)


@agent.tool
async def look_up(context: RunContext[Customer], order: int) -> dict[str, object]:
    """Look up an order."""
    return {"order": order, "customer": context.deps.name}


@agent.tool_plain
async def track(order: int) -> str:
    """Ask the carrier where a parcel is, which takes a few seconds."""
    await asyncio.sleep(5)
    return f"order {order} is on its way"


def usage_file(user: str) -> Path:
    return STORE / f"{user}-usage.json"


def usage_of(user: str) -> RunUsage:
    if user not in usages:
        file = usage_file(user)
        usages[user] = USAGE.validate_json(file.read_bytes()) if file.is_file() else RunUsage()
    return usages[user]


def history_file(user: str, conversation: str) -> Path:
    return STORE / f"{user}-{conversation}.json"


def history_of(user: str, conversation: str) -> list[ModelMessage]:
    file = history_file(user, conversation)
    return ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.is_file() else []


@app.post("/{user}/{conversation}", response_class=EventSourceResponse)
async def answer(
    user: str, conversation: str, prompt: Annotated[str, Body(embed=True)]
) -> AsyncIterator[ServerSentEvent]:
    usage = usage_of(user)
    history = history_of(user, conversation)
    run = agent.run_stream_events(
        prompt,
        deps=Customer(user),
        # A turn that was cancelled may have left a tool call without a result.
        message_history=repair_messages(history),
        usage=usage,
        usage_limits=LIMITS,
    )
    async with run as stream:
        try:
            async for event in stream:
                match event:
                    case PartStartEvent(part=TextPart(content=text)):
                        yield ServerSentEvent(event="token", data=text)
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                        yield ServerSentEvent(event="token", data=text)
                    case FunctionToolCallEvent(part=part):
                        yield ServerSentEvent(event="tool", data=part.tool_name)
                    case FunctionToolResultEvent(part=part):
                        yield ServerSentEvent(event="result", data=part.content)
                    case AgentRunResultEvent():
                        yield ServerSentEvent(event="done", data="completed")
                    case _:
                        pass
        except UsageLimitExceeded:
            yield ServerSentEvent(event="done", data="budget")
        finally:
            usage_file(user).write_bytes(USAGE.dump_json(usage))
            messages = ModelMessagesTypeAdapter.dump_json(stream.all_messages())
            history_file(user, conversation).write_bytes(messages)


@app.get("/{user}/{conversation}")
async def prompts(user: str, conversation: str) -> list[str]:
    requests = [each for each in history_of(user, conversation) if isinstance(each, ModelRequest)]
    parts = [part for each in requests for part in each.parts]
    return [str(each.content) for each in parts if isinstance(each, UserPromptPart)]


@app.get("/{user}")
async def used_calls(user: str) -> int:
    return usage_of(user).requests
