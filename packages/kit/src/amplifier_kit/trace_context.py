"""The W3C trace context of a turn, by which spans of two processes belong to one trace."""

from __future__ import annotations

import sys

# A capability: `traceparent` and `tracestate` of the span in which the turn was submitted, or None.
TRACE_CONTEXT = "turn.trace_context"


def current_trace_context() -> dict[str, str]:
    """Return `traceparent` and `tracestate` of the current span; empty if there is none."""
    # A process with a span has loaded OpenTelemetry. Others need not have it, nor pay for it.
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - see above
        TraceContextTextMapPropagator,
    )

    # Not the propagators of `OTEL_PROPAGATORS`: submitter and worker may have different ones, and
    # baggage is not to be stored.
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier
