"""The open spans of one session, and their parents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from amplifier_core.correlation import OpenToolCall, current_tool_call
from amplifier_kit.module_ids import package_of
from amplifier_kit.trace_context import TRACE_CONTEXT
from amplifier_module_hooks_otel.conventions import ERROR_TYPE
from amplifier_module_hooks_otel.model_calls import ModelCall


@dataclass(slots=True, eq=False)
class SessionTrace:
    """The open spans of one session, by the ids in its events."""

    id: str
    coordinator: Any
    agent_name: str | None = None
    # The span of the parent session during which this one was forked.
    above: Span | None = None
    turns: list[Span] = field(default_factory=list[Span])
    tools: dict[str, Span] = field(default_factory=dict[str, Span])
    # Ended ones too: a background child's parent is the call that started it.
    spans: WeakKeyDictionary[OpenToolCall, Span] = field(
        default_factory=WeakKeyDictionary[OpenToolCall, Span]
    )
    calls: dict[str, ModelCall] = field(default_factory=dict[str, ModelCall])
    # Calls that have an answer, until the loop reports its finish reason.
    answered: list[ModelCall] = field(default_factory=list[ModelCall])

    def place(self, *, of_fork: bool = False) -> Span | None:
        """Return the parent of a span that begins now."""
        # The current call may belong to another session, and is not in `spans` then.
        call = current_tool_call()
        if call is not None and call in self.spans:
            return self.spans[call]
        if of_fork and len(self.tools) == 1:
            return next(iter(self.tools.values()))
        if self.turns:
            return self.turns[-1]
        return self.above

    def submitted_in(self) -> Context | None:
        """Return the context in which the turn was submitted, if that was in another process."""
        carrier = self.coordinator.get_capability(TRACE_CONTEXT)
        if not carrier:
            return None
        return TraceContextTextMapPropagator().extract(carrier)

    def begin_tool(self, call_id: str, span: Span) -> None:
        """Note the span of a tool call that begins."""
        self.tools[call_id] = span
        call = current_tool_call()
        if call is not None:
            self.spans[call] = span

    def end_tool(self, call_id: str, error_type: str | None, said: dict[str, str]) -> None:
        """End the span of a tool call, if it is open."""
        span = self.tools.pop(call_id, None)
        if span is not None:
            end(span, error_type, said)

    def end_step(self, error_type: str, *, with_calls: bool = False) -> None:
        """End answered calls, open tool calls and, with `with_calls`, open model calls."""
        while self.answered:
            call = self.answered.pop()
            end(call.span, None, {}, call.ended_ns)
        for call_id in list(self.tools):
            self.end_tool(call_id, error_type, {})
        while with_calls and self.calls:
            end(self.calls.popitem()[1].span, error_type, {})

    def module_of(self, mount_point: str, name: str | None = None) -> str | None:
        """Return the id of the module that is mounted under a name, else its package."""
        module: Any = self.coordinator.mount_points[mount_point]
        module = module if name is None else module.get(name)
        if module is None:
            return None
        return package_of(module)


def end(span: Span, error_type: str | None, about: dict[str, Any], at: int | None = None) -> None:
    """End a span, now or at a past time in nanoseconds."""
    span.set_attributes(about)
    if error_type is not None:
        span.set_attribute(ERROR_TYPE, error_type)
        span.set_status(Status(StatusCode.ERROR))
    span.end(at)
