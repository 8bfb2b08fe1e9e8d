"""One turn of an orchestrator with test doubles, some of them slow."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine, Iterable
from typing import Any

from amplifier_conformance.watch import Outcome, outcome_of
from amplifier_core.interfaces import accepts
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCall,
    ToolCallBlock,
)
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockContextManager, MockProvider, MockTool

__all__ = ["Memory", "ScriptedModel", "SlowModel", "SlowTool", "Turn", "asking_for", "never"]

_FOR_EVER_SECONDS = 3_600.0


def asking_for(*tools: str) -> list[ChatResponse | str | BaseException]:
    """Return the script of a model that calls these tools in one answer."""
    calls = [
        ToolCall(id=f"call-{number}-{name}", name=name, arguments={"number": number})
        for number, name in enumerate(tools)
    ]
    blocks = [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in calls]
    return [ChatResponse(content=[*blocks], tool_calls=calls)]


async def never(*_: Any, **__: Any) -> Any:
    """Wait forever."""
    await asyncio.Event().wait()


class SlowTool(MockTool):
    """A tool that takes `seconds`, by default forever."""

    def __init__(self, name: str, seconds: float = _FOR_EVER_SECONDS) -> None:
        super().__init__(name)
        self._seconds = seconds

    async def _execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        await asyncio.sleep(self._seconds)
        return await super()._execute(input)


class ScriptedModel(MockProvider):
    """A model that follows a script and calls tools only if a request offers some.

    A loop may ask it for something else before, between or after its steps: a plan, a summary, a
    check of its answer. Such a request gets text, and the script continues with the next step.
    """

    def __init__(self, script: Iterable[ChatResponse | str | BaseException] = ()) -> None:
        super().__init__(script)
        self.steps = 0
        self.was_asked_after_step = False

    @property
    def has_more(self) -> bool:
        """Whether the script has responses left."""
        return bool(self._responses)

    async def _complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.was_asked_after_step = self.steps > 0
        if not self._is_step_next():
            return await super()._complete(request, **kwargs)
        if not (request.tools or kwargs.get("tools")):
            self.requests.append(request)
            return ChatResponse(content=[TextBlock(text="First I look, then I answer.")])
        self.steps += 1
        self.was_asked_after_step = False
        return await super()._complete(request, **kwargs)

    def _is_step_next(self) -> bool:
        """Whether the script continues with an answer that calls tools."""
        following = self._responses[0] if self._responses else None
        return isinstance(following, ChatResponse) and bool(following.tool_calls)


class SlowModel(ScriptedModel):
    """A model that answers until its script ends, and then never again."""

    async def _complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        if not self._responses:
            await never()
        return await super()._complete(request, **kwargs)


class Memory(MockContextManager):
    """A memory with two methods that some loops call although they are not in the contract."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        super().__init__(messages)
        self.should_compact = self._should_compact
        self.compact = self._compact_internal


class Turn:
    """The arguments of an orchestrator for one turn."""

    def __init__(
        self,
        coordinator: Any,
        script: Iterable[ChatResponse | str | BaseException] = (),
        tools: Iterable[MockTool] = (),
        history: Iterable[dict[str, Any]] = (),
    ) -> None:
        self.coordinator = coordinator
        # A copy, because tests share their histories and a loop may change the messages.
        self.context = Memory(copy.deepcopy(list(history)))
        self.provider = ScriptedModel(script)
        self.tools = {tool.name: tool for tool in tools}

    def call(self, orchestrator: Any) -> Coroutine[Any, Any, Any]:
        """Return the turn as a coroutine."""
        arguments: dict[str, Any] = {
            "prompt": "Do it.",
            "context": self.context,
            "providers": {"mock": self.provider},
            "tools": self.tools,
            "hooks": self.coordinator.hooks,
        }
        if accepts(orchestrator.execute, "coordinator"):
            arguments["coordinator"] = self.coordinator
        return orchestrator.execute(**arguments)

    async def run(self, orchestrator: Any, seconds: float) -> Outcome:
        """Run the turn, for at most `seconds`."""
        return await outcome_of(self.call(orchestrator), seconds)
