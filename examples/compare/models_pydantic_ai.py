"""The models of the programs with pydantic-ai: functions that answer as the mock of ours does."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping

from pydantic_ai import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel


def _last(messages: list[ModelMessage]) -> UserPromptPart | ToolReturnPart:
    requests = [each for each in messages if isinstance(each, ModelRequest)]
    parts = [part for each in requests for part in each.parts]
    return [each for each in parts if isinstance(each, UserPromptPart | ToolReturnPart)][-1]


def _next_step(messages: list[ModelMessage], info: AgentInfo) -> str | ToolCallPart:
    """Return a call of the tool whose name is in the prompt, or what the last one returned."""
    last = _last(messages)
    if isinstance(last, ToolReturnPart):
        return f"[mock] I called {last.tool_name} and got: {last.model_response_str()}"
    prompt = str(last.content)
    for each in info.function_tools:
        if each.name.replace("_", " ") in prompt:
            numbers = re.findall(r"\d+", prompt)
            names = list(each.parameters_json_schema["properties"])
            return ToolCallPart(each.name, dict(zip(names, numbers, strict=False)))
    return f"[mock] {prompt}"


async def _complete(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    step = _next_step(messages, info)
    return ModelResponse([TextPart(step) if isinstance(step, str) else step])


async def _stream(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | DeltaToolCalls]:
    step = _next_step(messages, info)
    if isinstance(step, ToolCallPart):
        yield {0: DeltaToolCall(step.tool_name, step.args_as_json_str())}
        return
    for word in step.split(" "):
        yield f"{word} "


async def _repeat(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    await asyncio.sleep(0.1)
    return ModelResponse([TextPart(f"[mock] {_last(messages).content}")])


CALLS_TOOLS = FunctionModel(_complete, stream_function=_stream)
SLOW = FunctionModel(_repeat)


def scripted(*steps: str | list[ToolCallPart]) -> FunctionModel:
    """Return a model that answers with these steps."""

    async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        answers = sum(isinstance(each, ModelResponse) for each in messages)
        step = steps[answers]
        return ModelResponse([TextPart(step)] if isinstance(step, str) else step)

    return FunctionModel(answer)


def calls(name: str, *arguments: Mapping[str, object]) -> list[ToolCallPart]:
    """Return a step that calls a tool once for each of these arguments."""
    return [ToolCallPart(name, dict(each)) for each in arguments]
