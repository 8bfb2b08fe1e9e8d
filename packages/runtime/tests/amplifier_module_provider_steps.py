"""A model whose next step follows from the conversation alone, so that any worker plays on.

Config: `steps`, like provider-mock's, where `retry` announces a failed attempt first; in a text,
`{n}` is the result of the turn's n-th tool call. `by_prompt` has steps of their own for a prompt.
Asked for `news?`, it says what hooks have told it of tasks. `trace` is a file to note calls in.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from runtime_stage import Trace

from amplifier_core import llm_errors
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from amplifier_core.models import ProviderInfo

__amplifier_module_type__ = "provider"


class StepsModel:
    name = "steps"

    def __init__(self, config: dict[str, Any], session_id: str, hooks: Any) -> None:
        self._hooks = hooks
        self._steps: list[Any] = config["steps"]
        self._by_prompt: dict[str, list[Any]] = config.get("by_prompt") or {}
        self._usage = config.get("usage")
        self._trace = Trace(Path(config["trace"])) if "trace" in config else None
        self._session_id = session_id

    def get_info(self) -> ProviderInfo:
        defaults = {"model": "steps", "max_output_tokens": 1_000, "context_window": 100_000}
        return ProviderInfo(id="steps", display_name="Steps", defaults=defaults)

    async def list_models(self) -> list[Any]:
        return []

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        results, answered, news = _read(request)
        steps = self._by_prompt.get(_last_prompt(request), self._steps)
        given: Any = steps[min(answered, len(steps) - 1)] if news is None else news
        step: dict[str, Any] = {"text": given} if isinstance(given, str) else given
        if self._trace is not None:
            self._trace.note("model", self._session_id, answered)
        await asyncio.sleep(step.get("delay_seconds", 0))
        if "retry" in step:
            await self._hooks.emit("provider:retry", {"error_type": step["retry"]})
            # As every provider waits before it tries again.
            await asyncio.sleep(0.05)
        if "error" in step:
            raise getattr(llm_errors, step["error"])("as the script says")
        text = step.get("text", "")
        for number, result in enumerate(results):
            text = text.replace(f"{{{number}}}", result)
        calls = [ToolCall(**each) for each in step.get("tool_calls", ())]
        blocks = [ToolCallBlock(id=each.id, name=each.name, input=each.arguments) for each in calls]
        usage = Usage(**self._usage) if self._usage else None
        return ChatResponse(
            content=[TextBlock(text=text), *blocks], tool_calls=calls or None, usage=usage
        )


def _last_prompt(request: ChatRequest) -> str:
    """Return what the user said last."""
    prompts = [each.content for each in request.messages if each.role == "user"]
    return prompts[-1] if prompts and isinstance(prompts[-1], str) else ""


def _read(request: ChatRequest) -> tuple[list[str], int, str | None]:
    """Return the turn's tool results, how often it was answered, and the news if asked for."""
    results: list[str] = []
    answered, news = 0, None
    for message in request.messages:
        text = message.content if isinstance(message.content, str) else ""
        if message.role == "user" and "These tasks have ended" in text:
            news = text if news is not None else None
        elif message.role == "user":
            results, answered, news = [], 0, "" if text == "news?" else None
        elif message.role == "tool":
            results.append(text or _joined(message.content))
        elif message.role == "assistant":
            answered += 1
    return results, answered, news


def _joined(content: Any) -> str:
    return "".join(
        str(getattr(each, "output", None) or getattr(each, "text", "")) for each in content
    )


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    await coordinator.mount(
        "providers", StepsModel(config or {}, coordinator.session_id, coordinator.hooks)
    )
