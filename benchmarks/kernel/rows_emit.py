"""Emits: small payloads, a large one and streamed tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.kernel import isolation
from benchmarks.kernel.bare import STREAM_TOKENS
from benchmarks.kernel.measure import Block

from amplifier_core import HookRegistry, HookResult

LARGE_PAYLOAD: dict[str, Any] = {
    "tool_name": "read",
    "tool_input": {"path": "x"},
    "result": "line of text\n" * 8_000,
}


def small_payload() -> dict[str, Any]:
    """The event data of the small emits, built anew for each, as the bare block does."""
    return {"tool_name": "add", "tool_input": {"a": 1, "b": 2}, "i": 1}


async def handler(event: str, data: dict[str, Any]) -> HookResult:
    """An observer that builds its own answer, as published hooks do."""
    return HookResult(action="continue")


def _registry(event: str, handlers: int) -> HookRegistry:
    registry = HookRegistry()
    registry.set_default_fields(session_id="s", parent_id=None)
    for index in range(handlers):
        registry.register(event, handler, priority=index, name=f"h{index}")
    return registry


async def _emitting(handlers: int, payload: Callable[[], dict[str, Any]]) -> Block:
    registry = _registry("tool:pre", handlers)

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            await registry.emit("tool:pre", payload())

    return block


async def _streaming(handlers: int) -> Block:
    registry = _registry("content_block:delta", handlers)

    async def block(repeats: int) -> None:
        for _ in range(repeats):
            parts: list[str] = []
            for sequence in range(STREAM_TOKENS):
                data = {"block_index": 0, "delta": {"text": "tok "}, "sequence": sequence}
                await registry.emit("content_block:delta", data)
                parts.append("tok ")
            "".join(parts)

    return block


CHECK = isolation.check
SUBJECTS = {
    "emit-0": lambda: _emitting(0, small_payload),
    "emit-1": lambda: _emitting(1, small_payload),
    "emit-10": lambda: _emitting(10, small_payload),
    "emit-100": lambda: _emitting(100, small_payload),
    "emit-100kb": lambda: _emitting(1, lambda: LARGE_PAYLOAD),
    "stream-0": lambda: _streaming(0),
    "stream-1": lambda: _streaming(1),
}
