"""Extensions with pydantic-ai: an own model, memory and loop, and a hook.

The memory shows the model the last two prompts with what followed. The loop sends back an answer
that names no source.
"""

import asyncio

from pydantic_ai import Agent, ModelMessage, ModelResponse, RunContext
from pydantic_ai.capabilities import Hooks, ProcessHistory
from pydantic_ai.messages import TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition


class Acme(Model[None]):
    @property
    def model_name(self) -> str:
        return "a1"

    @property
    def system(self) -> str:
        return "acme"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        print("acme reads", len(messages), "messages")
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse([TextPart(f"I know that {last.content}.")])
        if isinstance(last, UserPromptPart) and last.content == "Name your source.":
            return ModelResponse([TextPart("The source is look_up.")])
        return ModelResponse([ToolCallPart("look_up", {"order": 7})])


def is_prompt(message: ModelMessage) -> bool:
    return any(isinstance(each, UserPromptPart) for each in message.parts)


def last_prompts(messages: list[ModelMessage]) -> list[ModelMessage]:
    prompts = [at for at, each in enumerate(messages) if is_prompt(each)]
    return messages[prompts[-2:][0] :]


hooks = Hooks[object]()
agent = Agent(Acme(), capabilities=[ProcessHistory(last_prompts), hooks])


@hooks.on.before_tool_execute
async def note(
    context: RunContext[object],
    /,
    *,
    call: ToolCallPart,
    tool_def: ToolDefinition,
    args: dict[str, object],
) -> dict[str, object]:
    print("calls", call.tool_name)
    return args


@agent.tool_plain
def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} has 3 articles"


async def main() -> None:
    history: list[ModelMessage] = []
    for _ in range(2):
        done = await agent.run("Where is order 7?", message_history=history)
        if "source" not in done.output:
            done = await agent.run("Name your source.", message_history=done.all_messages())
        history = done.all_messages()
        print(done.output)


if __name__ == "__main__":
    asyncio.run(main())
