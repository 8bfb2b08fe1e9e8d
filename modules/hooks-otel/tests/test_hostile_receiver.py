"""Receivers and models that mean harm: what leaves in spans, and what comes back, is bounded."""

from __future__ import annotations

import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from amplifier_core import AmplifierSession

SECRET = "sk-ant-api03-" + "Ab3" * 30
MEGABYTE = b"x" * 1_000_000


class HostileReceiver(ThreadingHTTPServer):
    """A receiver that answers without end, or sends whoever asks elsewhere."""

    daemon_threads = True

    def __init__(self) -> None:
        self.sent = 0
        self.location = ""
        self.got: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), HostileHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class HostileHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        receiver = cast("HostileReceiver", self.server)
        receiver.headers.append(dict(self.headers))
        receiver.got.append(self.rfile.read(int(self.headers["Content-Length"])))
        if receiver.location:
            self.send_response(307)
            self.send_header("Location", receiver.location + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(400)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        try:
            while receiver.sent < 300_000_000:
                self.wfile.write(MEGABYTE)
                receiver.sent += len(MEGABYTE)
        except OSError:
            pass

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def receivers(monkeypatch: pytest.MonkeyPatch) -> Generator[list[HostileReceiver]]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=k-witness")
    servers = [HostileReceiver(), HostileReceiver()]
    threads = [threading.Thread(target=each.serve_forever, daemon=True) for each in servers]
    for thread in threads:
        thread.start()
    yield servers
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        server.server_close()
        thread.join(5)


async def run(harness: Any, receiver: HostileReceiver) -> None:
    plan = harness.plan(harness.step(text="Done."), otel={"otlp": {"endpoint": receiver.url}})
    async with AmplifierSession(plan, display_system=harness) as session:
        await session.execute("hello")


@pytest.mark.attack("review untried")
async def test_of_an_answer_without_end_only_the_beginning_is_read(
    harness: Any, receivers: list[HostileReceiver]
) -> None:
    await run(harness, receivers[0])

    # Spans and metrics each have an answer; what is in the buffers of the sockets comes on top.
    assert receivers[0].got
    assert receivers[0].sent < 50_000_000
    assert all(len(line) < 1_100 for line in harness.lines)
    assert any("OpenTelemetry data is lost" in line for line in harness.lines)


@pytest.mark.attack("review untried")
async def test_a_redirect_takes_neither_headers_nor_spans_elsewhere(
    harness: Any, receivers: list[HostileReceiver]
) -> None:
    receivers[0].location = receivers[1].url

    await run(harness, receivers[0])

    assert receivers[0].headers[0]["x-team"] == "k-witness"
    assert receivers[1].got == []


@pytest.mark.attack("review untried")
async def test_names_that_somebody_else_makes_up_leave_short_and_without_secrets(
    harness: Any,
) -> None:
    made_up = f"\x1b[2J{SECRET}\n" + "r" * 100_000
    session = await harness.open(harness.plan(harness.step(text="x")))
    usage = {"input_tokens": 1, "output_tokens": 1}
    about = {"provider": made_up, "model": made_up, "request_id": "1", "session_id": made_up}
    answer = {"usage": usage, "response": {"finish_reason": made_up}}
    failure = {"status": "error", "error": {"type": made_up}}
    tool: dict[str, Any] = {"tool_name": made_up, "tool_call_id": made_up, "tool_input": {}}
    emit = session.coordinator.hooks.emit
    await emit("llm:request", about)
    await emit("llm:response", {**about, "usage": usage})
    await emit("provider:response", {**about, **answer})
    await emit("llm:request", about)
    await emit("llm:response", {**about, **failure})
    await emit("tool:pre", {**about, **tool})
    await emit("tool:error", {**about, **tool, **failure})

    spans = [(span.name, dict(span.attributes)) for span in harness.spans()]
    counted = [dict(point.attributes) for points in harness.metrics().values() for point in points]
    texts = str((spans, counted))

    assert len(spans) == 3
    assert SECRET not in texts
    assert "\x1b" not in "".join(span.name for span in harness.spans())
    assert "\\x1b" not in texts
    assert len(texts) < 30_000
