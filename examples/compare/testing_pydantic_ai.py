"""Tests of an agent with pydantic-ai: a function answers, and no vendor is called."""

import pytest
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, models
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

models.ALLOW_MODEL_REQUESTS = False
shop = Agent("anthropic:claude-sonnet-5-5", instructions="Be brief.", defer_model_check=True)


@shop.tool_plain
def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} has 3 articles"


def clerk(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    assert info.instructions == "Be brief."
    last = messages[-1].parts[-1]
    if not isinstance(last, ToolReturnPart):
        return ModelResponse([ToolCallPart("look_up", {"order": 7})])
    return ModelResponse([TextPart(f"I found: {last.content}.")])


def test_the_model_reads_what_the_tool_returned() -> None:
    with shop.override(model=FunctionModel(clerk)):
        done = shop.run_sync("Where is order 7?")
    assert done.output == "I found: order 7 has 3 articles."


def test_no_vendor_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    # The client of the vendor is made before its requests are refused.
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    with pytest.raises(RuntimeError, match="ALLOW_MODEL_REQUESTS"):
        shop.run_sync("Where is order 7?")
