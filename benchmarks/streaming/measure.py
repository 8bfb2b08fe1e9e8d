"""The CPU time of a streamed token, beside the same stream told to the same subscriber by hand.

Turns of both kinds alternate in one process, so that a busy machine slows both alike. The answer is
the difference of the cheapest turns: noise only ever adds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from amplifier_core import ChatRequest, HookResult, ModuleLoader, ProviderInfo, ToolCall
from amplifier_core.testing import MockContextManager, MockCoordinator

TOKENS = 10_000
ROUNDS = 15


@dataclass(frozen=True, slots=True)
class Figure:
    """Microseconds of CPU per token: through the loop, and bare."""

    loop: float
    bare: float

    @property
    def over_bare(self) -> float:
        """What the loop and the hooks add."""
        return self.loop - self.bare


class Screen:
    """A user interface: shows every delta it is told of."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        """Show the text, and answer as published hooks do."""
        self.shown.append(data["text"])
        return HookResult(action="continue")


class TokenProvider:
    """A provider that streams the same token over and over."""

    name = "tokens"

    def get_info(self) -> ProviderInfo:
        """Describe nothing."""
        return ProviderInfo(id="tokens", display_name="Tokens")

    def parse_tool_calls(self, response: Any) -> list[ToolCall]:
        """Call nothing."""
        return []

    async def stream(
        self, request: ChatRequest | None = None, tools: object = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Stream."""
        for _ in range(TOKENS):
            yield {"content": "tok ", "block_type": "text"}


async def _through_the_loop() -> Callable[[], Awaitable[int]]:
    coordinator = MockCoordinator()
    await (await ModuleLoader().load("loop-streaming"))(coordinator)
    loop = coordinator.get_mounted("orchestrator")
    screen = Screen()
    coordinator.hooks.register("llm:stream_block_delta", screen)
    providers, context = {"tokens": TokenProvider()}, MockContextManager()

    async def turn() -> int:
        screen.shown.clear()
        context.messages.clear()
        await loop.execute("hi", context, providers, {}, coordinator.hooks, coordinator)
        return len(screen.shown)

    return turn


async def _bare() -> Callable[[], Awaitable[int]]:
    provider, screen = TokenProvider(), Screen()

    async def turn() -> int:
        screen.shown.clear()
        parts: list[str] = []
        async for chunk in provider.stream():
            parts.append(chunk["content"])
            await screen("delta", {"text": chunk["content"]})
        return len(screen.shown)

    return turn


async def measure(rounds: int = ROUNDS) -> Figure:
    """Measure so many turns of both kinds."""
    turns = [await _through_the_loop(), await _bare()]
    best = [float("inf"), float("inf")]
    gc.collect()
    for _ in range(rounds):
        for index, turn in enumerate(turns):
            start = time.process_time_ns()
            told = await turn()
            best[index] = min(best[index], (time.process_time_ns() - start) / TOKENS / 1000)
            if told != TOKENS:
                raise RuntimeError(f"{told} of {TOKENS} tokens arrived")
    return Figure(*best)
