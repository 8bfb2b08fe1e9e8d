"""One turn with the library: the model calls a typed function, then answers."""

from __future__ import annotations

from amplifier import Agent, tool

SECONDS = 0.2
"""How long a model call takes, so that all sessions run at the same time."""


@tool(effect="pure")
async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


_CALL = {"tool_calls": [{"name": "double", "arguments": {"number": 21}}]}
_MOCK = {"script": [_CALL, "It is 42."], "delay_seconds": SECONDS}
agent = Agent(
    {"module": "provider-mock", "config": _MOCK}, instructions="You double.", tools=[double]
)


async def turn() -> str:
    """Run a turn in a session of its own."""
    return (await agent.run("What is twice 21?")).output
