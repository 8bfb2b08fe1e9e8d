"""Extensions with `amplifier`: an own provider, memory and loop, and a hook.

The memory shows the model the last two prompts with what followed. The loop sends back an answer
that names no source.
"""

import asyncio

from amplifier import Agent
from amplifier_core import AmplifierSession
from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall
from amplifier_core.models import ModelInfo, ProviderInfo
from amplifier_module_contexts.config import MemoryConfig
from amplifier_module_contexts.context import FittingContext
from amplifier_module_loops.limits import TurnSettings
from amplifier_module_loops.turn import TurnLoop

WINDOW, LONGEST = 100_000, 1_000


class Acme:
    name = "acme"

    def get_info(self) -> ProviderInfo:
        limits = {"context_window": WINDOW, "max_output_tokens": LONGEST}
        return ProviderInfo(id="acme", display_name="Acme", defaults={"model": "a1", **limits})

    async def list_models(self) -> list[ModelInfo]:
        return [
            ModelInfo(id="a1", display_name="A1", context_window=WINDOW, max_output_tokens=LONGEST)
        ]

    async def complete(self, request: ChatRequest, **_: object) -> ChatResponse:
        print("acme reads", len(request.messages), "messages")
        last = request.messages[-1]
        if last.role == "tool":
            return ChatResponse(content=[TextBlock(text=f"I know that {last.content}.")])
        if last.content == "Name your source.":
            return ChatResponse(content=[TextBlock(text="The source is look_up.")])
        call = ToolCall(id=f"call-{len(request.messages)}", name="look_up", arguments={"order": 7})
        return ChatResponse(content=[], tool_calls=[call])

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


class LastPrompts(FittingContext):
    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: object = None
    ) -> list[dict[str, object]]:
        messages = await super().get_messages_for_request(token_budget, provider)
        prompts = [at for at, each in enumerate(messages) if each["role"] == "user"]
        return messages[prompts[-2:][0] :]


class NamesSource(TurnLoop):
    async def execute(
        self,
        prompt: str,
        context: object,
        providers: dict[str, object],
        tools: dict[str, object],
        hooks: object,
        coordinator: object = None,
    ) -> str:
        answer = await super().execute(prompt, context, providers, tools, hooks, coordinator)
        if "source" in answer:
            return answer
        again = "Name your source."
        return await super().execute(again, context, providers, tools, hooks, coordinator)


async def note(event: str, data: dict[str, object]) -> None:
    print("calls", data["tool_name"])


def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} has 3 articles"


async def main() -> None:
    plan = Agent("mock:demo", tools=[look_up]).plan
    async with AmplifierSession({**plan, "providers": []}) as session:
        await session.coordinator.mount("providers", Acme(), name="acme")
        await session.coordinator.mount("context", LastPrompts(MemoryConfig()))
        await session.coordinator.mount("orchestrator", NamesSource("loop-source", TurnSettings()))
        session.coordinator.hooks.register("tool:pre", note)
        for _ in range(2):
            print(await session.execute("Where is order 7?"))


if __name__ == "__main__":
    asyncio.run(main())
