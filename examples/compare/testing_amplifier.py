"""Tests of an agent with `amplifier`: a scripted model answers, and no vendor is called."""

import pytest

from amplifier import Agent, AgentError, tool
from amplifier.testing import ModelRequest, ScriptedModel, ToolUse


@tool(effect="pure")
def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} has 3 articles"


shop = Agent("anthropic:claude-sonnet-5-5", instructions="Be brief.", tools=[look_up])


def clerk(request: ModelRequest) -> str | ToolUse:
    assert request.instructions == "Be brief."
    if not request.results:
        return ToolUse("look_up", {"order": 7})
    return f"I found: {request.results[0]}."


def test_the_model_reads_what_the_tool_returned() -> None:
    done = shop.testing(ScriptedModel(clerk)).run_sync("Where is order 7?")
    assert done.output == "I found: order 7 has 3 articles."


def test_no_vendor_is_called() -> None:
    with pytest.raises(AgentError, match="no scripted model"):
        shop.testing().run_sync("Where is order 7?")
