"""What the tests of hooks-otel share: sessions of real modules, and the SDK's own memory."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Generator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest
import pytest_asyncio
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from amplifier_core import AmplifierSession
from amplifier_core.testing import EventRecorder


class Harness:
    """Sessions that are recorded in memory, what a person sees of them, and what they announce."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.lines: list[str] = []
        self.recorder = EventRecorder()
        self.opened: list[AmplifierSession] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(message)

    async def open(self, plan: dict[str, Any], *, handed: bool = True) -> AmplifierSession:
        """Open a session; `handed` it the providers with a memory."""
        session = AmplifierSession(plan, display_system=self)
        if handed:
            session.coordinator.register_capability("otel.tracer_provider", self.tracers)
            session.coordinator.register_capability("otel.meter_provider", self.meters)
        session.coordinator.hooks.register("otel:degraded", self.recorder.record)
        await session.initialize()
        self.opened.append(session)
        return session

    def plan(self, *script: Any, loop: str = "loop-basic", **sections: Any) -> dict[str, Any]:
        """Return a mount plan of real modules; `otel` is this module's configuration."""
        config = sections.pop("otel", {})
        return {
            "session": {"orchestrator": loop, "context": "context-simple"},
            "providers": [self.model(*script)],
            "hooks": [{"module": "hooks-otel", "config": config, "required": True}],
            **sections,
        }

    def model(self, *script: Any, **config: Any) -> dict[str, Any]:
        """Return the plan entry of a provider with a script."""
        return {"module": "provider-mock", "config": {"script": list(script), **config}}

    def step(self, *calls: tuple[str, dict[str, Any]], cost: str = "0", **more: Any) -> Any:
        """Return a scripted answer that costs something and calls tools."""
        asked = [{"name": name, "arguments": arguments} for name, arguments in calls]
        usage = {"input_tokens": 100, "output_tokens": 10, "cache_read_tokens": 7, "cost_usd": cost}
        return {"tool_calls": asked, "usage": usage, **more}

    def spans(self, operation: str | None = None) -> list[ReadableSpan]:
        """Return the spans that have ended, all of them or those of one operation."""
        ended = list(self.exporter.get_finished_spans())
        if operation is None:
            return ended
        return [each for each in ended if self.said(each, "gen_ai.operation.name") == operation]

    def said(self, span: ReadableSpan, key: str) -> Any:
        """Return an attribute of a span; None when it lacks it."""
        return (span.attributes or {}).get(key)

    def parent_of(self, span: ReadableSpan) -> ReadableSpan | None:
        """Return the span above another."""
        above = span.parent and span.parent.span_id
        ids = {each.context and each.context.span_id: each for each in self.spans()}
        return ids.get(above)

    def metrics(self) -> dict[str, list[Any]]:
        """Return the data points of every metric."""
        data: Any = self.reader.get_metrics_data()
        scopes = [scope for each in data.resource_metrics for scope in each.scope_metrics]
        return {
            each.name: list(each.data.data_points) for scope in scopes for each in scope.metrics
        }

    def leaf_costs(self) -> Decimal:
        """Return what the model calls cost, by their spans."""
        exact = [self.said(each, "amplifier.cost_usd_exact") for each in self.spans("chat")]
        return sum(map(Decimal, exact), Decimal(0))

    async def cost_of(self, session: AmplifierSession) -> Decimal:
        """Return what a session cost with its children, by its own account."""
        told = await session.coordinator.collect_contributions("session.cost")
        return sum((Decimal(each["cost_usd"]) for each in told), Decimal(0))


@pytest_asyncio.fixture
async def harness() -> AsyncGenerator[Harness]:
    built = Harness()
    yield built
    for session in built.opened:
        await session.cleanup()
    built.tracers.shutdown()
    built.meters.shutdown()


KINDS: dict[str, type[Any]] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
}


class Receiver(ThreadingHTTPServer):
    """An OTLP/HTTP receiver that answers with `status`, once `gate` is open."""

    daemon_threads = True

    def __init__(self) -> None:
        self.status = 200
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()
        self.got: dict[str, list[Any]] = {path: [] for path in KINDS}
        super().__init__(("127.0.0.1", 0), Take)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.got["/v1/traces"]
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Take(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        receiver = cast("Receiver", self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver.asked.set()
        receiver.gate.wait(20)
        receiver.got[self.path].append(KINDS[self.path].FromString(body))
        self.send_response(receiver.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Generator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.gate.set()
    server.shutdown()
    server.server_close()
    thread.join(5)
