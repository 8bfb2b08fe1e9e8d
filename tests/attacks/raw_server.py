"""A model behind the wire that sends whatever it is given, event by event."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

DONE = "[DONE]"


class RawServer:
    """Answers every model call with the same events, each the text after `data: `."""

    def __init__(self, *events: str) -> None:
        self.requests = 0
        self._events = events
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """List one model."""
                self._send("application/json", json.dumps({"data": [{"id": "m"}]}))

            def do_POST(self) -> None:
                """Send the events."""
                self.rfile.read(int(self.headers.get("content-length", 0)))
                server.requests += 1
                body = "".join(f"data: {event}\n\n" for event in server._events)
                self._send("text/event-stream", body)

            def _send(self, kind: str, body: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler


def chunk(delta: Any, finish_reason: str | None = None) -> str:
    """Return one event of an answer; `delta` may be anything."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    facts = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return json.dumps({**facts, "choices": [choice]})
