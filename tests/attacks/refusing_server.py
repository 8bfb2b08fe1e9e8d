"""A provider that refuses every request and repeats the keys it was sent in its answer."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

KEY = "sk-proj-Zq8Wm3Xr7Tn2Vb6Lk9Pd4Hs1Jf5Gy0Ac"
OTHER_KEY = "corp-9f8e7d6c5b4a39281706f5e4d3c2b1a0"


class RefusingServer:
    """Answers 401 to everything."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Refuse."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        told = f"refused: Incorrect API key provided: {KEY}. Authorization: Bearer {OTHER_KEY}"
        body = json.dumps({"error": {"message": told, "code": "invalid_api_key"}}).encode()
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
