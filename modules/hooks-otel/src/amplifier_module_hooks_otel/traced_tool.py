"""A tool that runs inside of its span, so that spans it makes itself are below it."""

from __future__ import annotations

import inspect
from typing import Any

from opentelemetry import trace

from amplifier_core.correlation import current_tool_call
from amplifier_module_hooks_otel.telemetry import Telemetry


class TracedTool:
    """Forwards to a tool; the span of the running call is the current one meanwhile."""

    def __init__(self, tool: Any, telemetry: Telemetry) -> None:
        self._tool = tool
        self._telemetry = telemetry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    async def execute(self, input: dict[str, Any]) -> Any:  # noqa: A002 - contract name
        """Run the tool; how its call ends is recorded by the events."""
        span = self._telemetry.span_of(current_tool_call())
        if span is None:
            return await self._run(input)
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            return await self._run(input)

    async def _run(self, given: dict[str, Any]) -> Any:
        result = self._tool.execute(given)
        return await result if inspect.isawaitable(result) else result
