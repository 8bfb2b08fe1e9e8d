"""What a turn did, gathered from its events while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

__all__ = ["TurnReport"]

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass
class TurnReport:
    """The facts that `run` prints; children of the session count with their tokens and tools."""

    stop_reason: str | None = None
    result: Any = None
    budget_cause: str | None = None
    model: str | None = None
    usage: dict[str, int] = field(default_factory=dict[str, int])
    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _began: dict[str, float] = field(default_factory=dict[str, float], repr=False)

    def listen(self, hooks: Any, show_tool: Callable[[dict[str, Any]], None]) -> None:
        """Hear the events of a session; `show_tool` is told of each tool call that ended."""
        from amplifier_core.models import HookResult  # noqa: PLC0415 - a session has brought it

        quiet = HookResult()

        def hear(event: str, take: Callable[[dict[str, Any]], None]) -> None:
            async def handler(_: str, data: dict[str, Any]) -> HookResult:
                take(data)
                return quiet

            hooks.register(event, handler, name="amplifier run")

        def ended(data: dict[str, Any], *, success: bool) -> None:
            show_tool(self._tool(data, success=success))

        hear("tool:pre", self._begin)
        hear("tool:post", lambda data: ended(data, success=_worked(data)))
        hear("tool:error", lambda data: ended(data, success=False))
        hear("llm:response", self._count)
        hear("orchestrator:complete", self._end)
        hear("budget:exhausted", self._exhaust)

    def _begin(self, data: dict[str, Any]) -> None:
        self._began[str(data.get("tool_call_id"))] = time.monotonic()

    def _tool(self, data: dict[str, Any], *, success: bool) -> dict[str, Any]:
        began = self._began.pop(str(data.get("tool_call_id")), None)
        seconds = None if began is None else round(time.monotonic() - began, 3)
        tool = {"name": data.get("tool_name"), "success": success, "seconds": seconds}
        self.tools.append(tool)
        return {**tool, "input": data.get("tool_input")}

    def _count(self, data: dict[str, Any]) -> None:
        self.model = data.get("model") or self.model
        usage: dict[str, int | None] = data.get("usage") or {}
        for name in _TOKENS:
            if amount := usage.get(name):
                self.usage[name] = self.usage.get(name, 0) + amount

    def _end(self, data: dict[str, Any]) -> None:
        self.stop_reason, self.result = data.get("stop_reason"), data.get("result")

    def _exhaust(self, data: dict[str, Any]) -> None:
        self.budget_cause = str(data.get("cause") or "the budget is used up")


def _worked(data: dict[str, Any]) -> bool:
    result: Any = data.get("result")
    return not isinstance(result, dict) or cast("Any", result).get("success") is not False
