"""The events that loops announce besides those the kernel has names for."""

from __future__ import annotations

TOOL_HEARTBEAT = "tool:heartbeat"
TOOL_DENIED = "tool:denied"
TOOL_ABANDONED = "tool:abandoned"
CALLS_DROPPED = "orchestrator:calls_dropped"
STUCK = "orchestrator:stuck"
LAST_STEP = "orchestrator:last_step"
ANSWER_CUT = "orchestrator:answer_cut"
INVALID_OUTPUT = "orchestrator:invalid_output"
STEERING_INJECTED = "orchestrator:steering_injected"
MODE_CHANGED = "approval:mode_changed"
STEERING_WAITING = "orchestrator:steering_waiting"
CONTEXT_OVERFLOW = "context:overflow"
CONTEXT_UNCOUNTED = "context:uncounted"

TURN_EVENTS = [value for name, value in tuple(globals().items()) if name.isupper()]

# A capability, and not an event: the JSON Schema that the answer of the next turn has to match.
OUTPUT_SCHEMA = "turn.output_schema"
