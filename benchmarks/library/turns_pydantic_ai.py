"""One turn with pydantic-ai: the model calls a typed function, then answers."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

SECONDS = 0.2
"""How long a model call takes, so that all sessions run at the same time."""


async def _answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    await asyncio.sleep(SECONDS)
    if len(messages) == 1:
        return ModelResponse([ToolCallPart("double", {"number": 21})])
    return ModelResponse([TextPart("It is 42.")])


agent = Agent(FunctionModel(_answer), instructions="You double.")


@agent.tool_plain
async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def turn() -> str:
    """Run a turn; there is no session to open."""
    return (await agent.run("What is twice 21?")).output
