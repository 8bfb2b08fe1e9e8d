"""A model server on this machine that has one model, for checks that list the models."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

# One answer for all: OpenAI's format has `data`, that of Ollama and of Google has `models`.
_MODEL = {"id": "model", "object": "model", "created": 0, "owned_by": "local"}
_LIST = {
    "object": "list",
    "data": [_MODEL],
    "models": [{"name": "models/model", "model": "model"}],
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(_LIST).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Write nothing."""


@contextmanager
def model_server() -> Generator[str]:
    """Run the server, and give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
