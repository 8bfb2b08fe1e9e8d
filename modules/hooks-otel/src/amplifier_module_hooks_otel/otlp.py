"""Export by OTLP over HTTP, for apps that set up no OpenTelemetry of their own."""

from __future__ import annotations

import asyncio
import io
import threading
from typing import Any

import requests  # deptry: ignore[DEP003]
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from requests.adapters import HTTPAdapter  # deptry: ignore[DEP003]

from amplifier_module_hooks_otel.config import OtlpConfig
from amplifier_module_hooks_otel.trouble import Trouble

# `requests` comes with the exporter, and this file is imported only if that is used.

# A receiver that answers without end would otherwise fill the memory.
_MOST_BYTES = 65_536


def bounded_session() -> requests.Session:
    """Return a session that reads only the beginning of an answer."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _BoundedAdapter())
    return session


class _BoundedAdapter(HTTPAdapter):
    def send(self, request: Any, stream: bool = False, *args: Any, **more: Any) -> Any:
        """Send a request and cut its answer, which is not decompressed."""
        response: Any = super().send(request, True, *args, **more)
        body: bytes = response.raw.read(_MOST_BYTES, decode_content=False)
        response.close()
        response.raw = io.BytesIO(body)
        return response


_CLOSE_SECONDS = 5.0


class Export:
    """OpenTelemetry providers that export from threads of their own."""

    def __init__(self, config: OtlpConfig, session_id: str, trouble: Trouble) -> None:
        self._trouble = trouble
        base = config.endpoint and config.endpoint.rstrip("/")
        seconds = config.timeout_seconds
        # Without an instance id, the counters of two sessions would be taken for one.
        about = {"service.name": config.service_name, "service.instance.id": session_id}
        resource = Resource.create({key: value for key, value in about.items() if value})
        spans = OTLPSpanExporter(
            base and f"{base}/v1/traces", timeout=seconds, session=bounded_session()
        )
        values = OTLPMetricExporter(
            base and f"{base}/v1/metrics", timeout=seconds, session=bounded_session()
        )
        # Closed with the session: at exit, a dead receiver would delay the end of the program.
        self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.tracers.add_span_processor(BatchSpanProcessor(spans))
        readers = [PeriodicExportingMetricReader(values)]
        self.meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)

    async def close(self) -> None:
        """Send what is queued, unless that takes too long."""
        # A daemon thread, because a receiver that hangs must not keep the process from ending.
        closing = threading.Thread(target=self._shut_down, name="otel-close", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, _CLOSE_SECONDS)
        if closing.is_alive():
            self._trouble.tell("not_flushed", "The last OpenTelemetry data was not sent in time.")

    def _shut_down(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()
