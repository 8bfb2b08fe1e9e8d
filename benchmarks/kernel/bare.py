"""The hand-written loop that every row is divided by: what Python itself costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.kernel.measure import Block

STREAM_TOKENS = 1_000
HISTORY_MESSAGES = 1_000
CONTEXT_MESSAGES = 10_000
PROMPT = "hi"
ANSWER = "done"

Handler = Callable[[str, Any], Awaitable[None]]
Tool = Callable[[dict[str, Any]], Awaitable[str]]


class Call:
    """A tool call the model asks for."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self, call_id: str, name: str, arguments: dict[str, Any]) -> None:
        self.id, self.name, self.arguments = call_id, name, arguments


class Response:
    """What the model answers."""

    __slots__ = ("calls", "text")

    def __init__(self, text: str | None, calls: list[Call] | None) -> None:
        self.text, self.calls = text, calls


class Model:
    """A fake model: asks `tool_calls` times for the tool, then answers; or streams `tokens`."""

    __slots__ = ("_asked", "_delay", "_tokens", "_tool_calls")

    def __init__(self, tool_calls: int = 1, delay: float = 0.0, tokens: int = 0) -> None:
        self._tool_calls, self._asked, self._delay, self._tokens = tool_calls, 0, delay, tokens

    async def complete(self, messages: list[dict[str, Any]], tools: dict[str, Any]) -> Response:
        if self._delay:
            await asyncio.sleep(self._delay)
        if self._asked < self._tool_calls:
            self._asked += 1
            return Response(None, [Call(f"c{self._asked}", "add", {"a": 1, "b": 2})])
        self._asked = 0
        return Response(ANSWER, None)

    async def stream(self) -> AsyncIterator[str]:
        for _ in range(self._tokens):
            yield "tok "


async def add(arguments: dict[str, Any]) -> str:
    """The one tool."""
    return str(arguments["a"] + arguments["b"])


async def handler(event: str, data: Any) -> None:
    """An observer with nothing to say."""


class Session:
    """A conversation, its model, its tools and its observers."""

    __slots__ = ("handlers", "messages", "model", "tools")

    def __init__(
        self, model: Model, tools: dict[str, Tool], handlers: Sequence[Handler] = ()
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self.model, self.tools, self.handlers = model, tools, list(handlers)

    async def turn(self, prompt: str) -> str | None:
        messages = self.messages
        messages.append({"role": "user", "content": prompt})
        complete, tools, handlers = self.model.complete, self.tools, self.handlers
        while True:
            response = await complete(messages, tools)
            calls = response.calls
            if not calls:
                messages.append({"role": "assistant", "content": response.text})
                return response.text
            messages.append({"role": "assistant", "tool_calls": calls})
            for call in calls:
                for each in handlers:
                    await each("tool:pre", call.arguments)
                output = await tools[call.name](call.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": output})


def new_session(tool_calls: int = 1, delay: float = 0.0, handlers: int = 0) -> Session:
    """Build what a kernel's session amounts to."""
    return Session(Model(tool_calls, delay), {"add": add}, [handler] * handlers)


def old_messages(count: int) -> list[dict[str, Any]]:
    """A plain conversation of `count` messages."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": f"message number {i} " * 4} for i in range(count)]


def _emitting(handlers: int) -> Block:
    registered: list[Handler] = [handler] * handlers

    async def emit(event: str, data: dict[str, Any]) -> None:
        for each in registered:
            await each(event, data)

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            data = {"tool_name": "add", "tool_input": {"a": 1, "b": 2}, "i": 1}
            await emit("tool:pre", data)

    return block


def _streaming(handlers: int) -> Block:
    registered: list[Handler] = [handler] * handlers
    model = Model(tokens=STREAM_TOKENS)

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            parts: list[str] = []
            async for token in model.stream():
                for each in registered:
                    await each("delta", token)
                parts.append(token)
            "".join(parts)

    return block


def _creating() -> Block:
    async def block(repeats: int) -> None:
        for _ in range(repeats):
            new_session()

    return block


def _turning(tool_calls: int) -> Block:
    session = new_session(tool_calls)

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            session.messages.clear()
            await session.turn(PROMPT)

    return block


def _turning_on_history() -> Block:
    session = new_session(0)
    old = old_messages(HISTORY_MESSAGES)

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            session.messages = list(old)
            await session.turn(PROMPT)

    return block


def _copying() -> Block:
    messages = old_messages(CONTEXT_MESSAGES)

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            list(messages)

    return block


@dataclass(frozen=True, slots=True)
class Reference:
    """How to build a bare block, how long one may run, and the operations inside one call."""

    build: Callable[[], Block]
    block_seconds: float = 0.008
    unit: int = 1


REFERENCES: dict[str, Reference] = {
    "emit-0": Reference(lambda: _emitting(0)),
    "emit-1": Reference(lambda: _emitting(1)),
    "emit-10": Reference(lambda: _emitting(10)),
    "emit-100": Reference(lambda: _emitting(100)),
    "stream-0": Reference(lambda: _streaming(0), unit=STREAM_TOKENS),
    "stream-1": Reference(lambda: _streaming(1), unit=STREAM_TOKENS),
    "create": Reference(_creating),
    "turn": Reference(lambda: _turning(1)),
    "loop50": Reference(lambda: _turning(50), block_seconds=0.03),
    "history": Reference(_turning_on_history, block_seconds=0.02),
    "copy": Reference(_copying, block_seconds=0.004),
}
