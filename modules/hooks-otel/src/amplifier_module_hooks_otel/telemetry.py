"""The handler that turns the events of a whole tree of sessions into spans and metrics."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Tracer

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.correlation import OpenToolCall
from amplifier_core.models import HookResult
from amplifier_kit.calls.block_stream import BLOCK_DELTA
from amplifier_kit.secrets.known import known_secrets
from amplifier_kit.secrets.scrubber import Scrubber
from amplifier_kit.texts import shorten
from amplifier_module_hooks_otel import conventions as name
from amplifier_module_hooks_otel.attributes import plain, plain_text
from amplifier_module_hooks_otel.config import OtelConfig
from amplifier_module_hooks_otel.model_calls import Instruments, ModelCall, counts_in
from amplifier_module_hooks_otel.session_trace import SessionTrace, end
from amplifier_module_hooks_otel.trouble import Trouble

logger = logging.getLogger(__name__)
Facts = dict[str, Any]

# The event by which a session finds the telemetry that it inherits from its parent.
FIND = "otel:telemetry"
TELEMETRY = "otel.telemetry"
_LONGEST = 8_192


@dataclass(slots=True, eq=False)
class Telemetry:
    """One for each tree: children inherit it as a guard of their parent, whatever their plan."""

    coordinator: ModuleCoordinator
    config: OtelConfig
    tracer: Tracer
    instruments: Instruments
    trouble: Trouble
    sessions: dict[str, SessionTrace] = field(default_factory=dict[str, SessionTrace])

    async def __call__(self, event: str, data: Any) -> HookResult | None:
        """Record an event; never waits or raises, so that as a guard it never denies."""
        if event == FIND:
            return HookResult(data={TELEMETRY: self})
        try:
            facts = _dict(data)
            HANDLERS[event](self, self._session(str(facts.get("session_id"))), facts)
        except Exception:
            logger.exception("event not recorded event=%s", event)
            self.trouble.tell("not_recorded", f"Something is missing in the trace: {event}.")
        return None

    def enter(self, coordinator: ModuleCoordinator, config: OtelConfig) -> None:
        """Add a session; of its own configuration, only the agent's name is used."""
        session = self._session(coordinator.session_id)
        session.coordinator = coordinator
        session.agent_name = session.agent_name or config.agent_name
        if config.model_copy(update={"agent_name": self.config.agent_name}) != self.config:
            line = "An agent has its own `hooks-otel` configuration; its root's holds instead."
            self.trouble.tell("one_configuration", line)

    def span_of(self, call: OpenToolCall | None) -> Span | None:
        """Return the span of a tool call, in whichever session it is."""
        if call is None:
            return None
        for session in self.sessions.values():
            if call in session.spans:
                return session.spans[call]
        return None

    def close(self) -> None:
        """End every span that is open."""
        for session in list(self.sessions.values()):
            self.end_session(session, {})

    def _session(self, session_id: str) -> SessionTrace:
        if session_id not in self.sessions:
            self.sessions[session_id] = SessionTrace(session_id, self.coordinator)
        return self.sessions[session_id]

    def fork(self, session: SessionTrace, data: Facts) -> None:
        parent = self.sessions.get(str(data.get("parent")))
        if parent is not None and parent is not session:
            session.above = parent.place(of_fork=True)

    def name_agent(self, session: SessionTrace, data: Facts) -> None:
        if agent := data.get("agent"):
            self._session(str(data.get("child_session_id"))).agent_name = str(agent)

    def begin_turn(self, session: SessionTrace, data: Facts) -> None:
        agent = session.agent_name
        about: Facts = {name.OPERATION_NAME: name.INVOKE_AGENT, name.AGENT_NAME: agent}
        about[name.MODULE] = session.module_of("orchestrator")
        said = self._said(name.INPUT_MESSAGES, data.get("prompt"), "user")
        session.turns.append(self._start(session, agent, session.above, about, said))

    def end_turn(self, session: SessionTrace, data: Facts) -> None:
        status = str(data.get("status"))
        is_complete = status == "completed"
        # A model call that is still open after a complete turn does not belong to the turn.
        session.end_step(name.NO_RESULT if is_complete else status, with_calls=not is_complete)
        if session.turns:
            said = self._said(name.OUTPUT_MESSAGES, data.get("response"), "assistant")
            error_type = name.UNKNOWN_ERROR if status == "error" else None
            about = plain({name.TURN_STATUS: status}, self._scrubber())
            end(session.turns.pop(), error_type, {**about, **said})

    def end_session(self, session: SessionTrace, data: Facts) -> None:
        session.end_step(name.NO_RESULT, with_calls=True)
        while session.turns:
            end(session.turns.pop(), name.NO_RESULT, {})
        self.sessions.pop(session.id, None)

    def begin_call(self, session: SessionTrace, data: Facts) -> None:
        provider = str(data.get("provider"))
        model = str(data.get("model"))
        module = session.module_of("providers", provider) or f"provider-{provider}"
        about = {name.OPERATION_NAME: name.CHAT, name.REQUEST_MODEL: model, name.MODULE: module}
        about[name.PROVIDER_NAME] = name.VENDORS.get(provider, provider)
        about = plain(about, self._scrubber())
        span = self._start(session, model, session.place(), about)
        session.calls[str(data.get("request_id"))] = ModelCall(span, about)

    def note_chunk(self, session: SessionTrace, data: Facts) -> None:
        call = session.calls.get(str(data.get("request_id")))
        if call is None and len(session.calls) == 1:
            # Some providers use another id for the stream than for the call.
            (call,) = session.calls.values()
        if call is not None and call.seconds_to_first_chunk is None:
            call.seconds_to_first_chunk = time.perf_counter() - call.started

    def answer_call(self, session: SessionTrace, data: Facts) -> None:
        if call := session.calls.pop(str(data.get("request_id")), None):
            if data.get("status") == "error":
                error_type = self._error_type(data)
            else:
                error_type = None
            self.instruments.record(call, _dict(data.get("usage")), error_type)
            if error_type is None:
                return session.answered.append(call)
            end(call.span, error_type, {}, call.ended_ns)
        return None

    def finish_call(self, session: SessionTrace, data: Facts) -> None:
        answered = session.answered
        # This event has no request id, so the call is recognised by its token counts.
        counts = counts_in(_dict(data.get("usage")))
        if answered and answered[-1].counts == counts:
            call = answered.pop()
            reason = _dict(data.get("response")).get("finish_reason")
            if reason:
                reasons = {name.RESPONSE_FINISH_REASONS: [str(reason)]}
            else:
                reasons = {}
            end(call.span, None, plain(reasons, self._scrubber()), call.ended_ns)

    def begin_tool(self, session: SessionTrace, data: Facts) -> None:
        tool = str(data.get("tool_name"))
        call_id = str(data.get("tool_call_id"))
        session.end_tool(call_id, name.NO_RESULT, {})
        about: Facts = {name.OPERATION_NAME: name.EXECUTE_TOOL, name.TOOL_TYPE: "function"}
        module = session.module_of("tools", tool)
        about |= {name.TOOL_NAME: tool, name.TOOL_CALL_ID: call_id, name.MODULE: module}
        said = self._said(name.TOOL_CALL_ARGUMENTS, data.get("tool_input"))
        span = self._start(session, tool, session.place(), about, said)
        session.begin_tool(call_id, span)

    def end_tool(self, session: SessionTrace, data: Facts) -> None:
        error_type = self._error_type(data) if "error" in data else None
        if _dict(data.get("result")).get("success") is False:
            error_type = name.TOOL_FAILURE
        said = self._said(name.TOOL_CALL_RESULT, data.get("result"))
        session.end_tool(str(data.get("tool_call_id")), error_type, said)

    def _said(self, key: str, said: Any, role: str | None = None) -> dict[str, str]:
        """Return the content if it is captured: without secrets, and cut to size."""
        if not self.config.capture_content:
            return {}
        text = said if isinstance(said, str) else json.dumps(said)
        # Cut before and after: a secret that the second cut would halve is blanked in between.
        clean, _ = self._scrubber().scrub_text(shorten(text, 3 * _LONGEST))
        text = shorten(clean, _LONGEST)
        message = [{"role": role, "parts": [{"type": "text", "content": text}]}]
        return {key: text if role is None else json.dumps(message)}

    def _start(
        self,
        session: SessionTrace,
        what: str | None,
        parent: Span | None,
        about: Facts,
        said: dict[str, str] | None = None,
    ) -> Span:
        """Start a span.

        Without a parent of ours, its parent is the span in which the turn was submitted, else the
        app's current one.
        """
        scrubber = self._scrubber()
        if parent is None:
            context = session.submitted_in()
        else:
            context = trace.set_span_in_context(parent)
        operation: str = about[name.OPERATION_NAME]
        if operation == name.CHAT:
            kind = SpanKind.CLIENT
        else:
            kind = SpanKind.INTERNAL
        attributes = plain({**about, name.CONVERSATION_ID: session.id}, scrubber)
        if what:
            title = f"{operation} {plain_text(what, scrubber)}"
        else:
            title = operation
        return self.tracer.start_span(title, context, kind, {**attributes, **(said or {})})

    def _scrubber(self) -> Scrubber:
        return Scrubber(known_secrets(self.coordinator))

    def _error_type(self, data: Facts) -> str:
        error_type = str(_dict(data.get("error")).get("type") or name.UNKNOWN_ERROR)
        return plain_text(error_type, self._scrubber())


def _dict(value: Any) -> Facts:
    if isinstance(value, dict):
        return cast("Facts", value)
    return {}


HANDLERS: dict[str, Callable[[Telemetry, SessionTrace, Facts], None]] = {
    events.SESSION_FORK: Telemetry.fork,
    "task:started": Telemetry.name_agent,
    events.EXECUTION_START: Telemetry.begin_turn,
    # Results come before the next step; a call without one was denied by the user.
    events.PROVIDER_REQUEST: lambda _, session, data: session.end_step(name.NO_RESULT),
    events.LLM_REQUEST: Telemetry.begin_call,
    BLOCK_DELTA: Telemetry.note_chunk,
    events.LLM_RESPONSE: Telemetry.answer_call,
    events.PROVIDER_RESPONSE: Telemetry.finish_call,
    events.TOOL_PRE: Telemetry.begin_tool,
    events.TOOL_POST: Telemetry.end_tool,
    events.TOOL_ERROR: Telemetry.end_tool,
    events.EXECUTION_END: Telemetry.end_turn,
    events.SESSION_END: Telemetry.end_session,
}
