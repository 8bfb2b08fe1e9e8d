"""One session as its trace sees it: which spans are open, and where they hang."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.trace import Span, Status, StatusCode

from amplifier_module_hooks_otel.conventions import ERROR_TYPE
from amplifier_module_hooks_otel.model_calls import ModelCall


@dataclass(slots=True, eq=False)
class ToolCall:
    """A tool call on its way, and the one in whose course it was made."""

    session: SessionTrace
    span: Span
    outer: ToolCall | None


# The tool call in whose task we are. It is believed only where it names the session in question.
RUNNING: ContextVar[ToolCall | None] = ContextVar("otel_running_tool", default=None)


@dataclass(slots=True, eq=False)
class SessionTrace:
    """The open spans of one session, by the ids that its events carry."""

    id: str
    coordinator: Any
    agent_name: str | None = None
    # The span of another session in whose course this one was forked.
    above: Span | None = None
    turns: list[Span] = field(default_factory=list[Span])
    tools: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    calls: dict[str, ModelCall] = field(default_factory=dict[str, ModelCall])
    # Calls that have an answer, until the loop tells how it ended.
    answered: list[ModelCall] = field(default_factory=list[ModelCall])

    def place(self, *, of_fork: bool = False) -> Span | None:
        """Return the span that what begins now belongs to."""
        running = RUNNING.get()
        if running is not None and running.session is self:
            return running.span
        if of_fork and len(self.tools) == 1:
            return next(iter(self.tools.values())).span
        if self.turns:
            return self.turns[-1]
        return self.above

    def end_tool(self, call_id: str, error_type: str | None, said: dict[str, str]) -> None:
        """End a tool call; what is not open is not missed."""
        if tool := self.tools.pop(call_id, None):
            if RUNNING.get() is tool:
                RUNNING.set(tool.outer)
            end(tool.span, error_type, said)

    def end_step(self, error_type: str, *, with_calls: bool = False) -> None:
        """End what has an answer, and the tool calls and model calls that will have none."""
        while self.answered:
            call = self.answered.pop()
            end(call.span, None, {}, call.ended_ns)
        for call_id in list(self.tools):
            self.end_tool(call_id, error_type, {})
        while with_calls and self.calls:
            end(self.calls.popitem()[1].span, error_type, {})

    def module_of(self, mount_point: str, name: str | None = None) -> str | None:
        """Return the id of the module behind a mounted name, or its package when it has none."""
        module: Any = self.coordinator.mount_points[mount_point]
        module = module if name is None else module.get(name)
        if module is None:
            return None
        package = type(module).__module__.partition(".")[0]
        module_id = package.removeprefix("amplifier_module_")
        if module_id == package:
            return package
        return module_id.replace("_", "-")


def end(span: Span, error_type: str | None, about: dict[str, Any], at: int | None = None) -> None:
    """End a span, at a time in nanoseconds if it is past."""
    span.set_attributes(about)
    if error_type is not None:
        span.set_attribute(ERROR_TYPE, error_type)
        span.set_status(Status(StatusCode.ERROR))
    span.end(at)
