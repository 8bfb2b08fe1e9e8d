"""A model behind the wire: an OpenAI-compatible server that plays a script, as slowly as asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

_MODEL = "scripted-model"


@dataclass
class Said:
    """One answer: fragments of text, gates to wait at, and calls of tools."""

    parts: list[str | Event] = field(default_factory=list[str | Event])
    calls: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )


class ModelServer:
    """Plays one `Said` for each request; `requests` is what was asked."""

    def __init__(self, script: list[Said]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._script = list(script)
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
        for said in self._script:
            for part in said.parts:
                if isinstance(part, Event):
                    part.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """List the one model there is."""
                self._head("application/json")
                models = [{"id": _MODEL, "object": "model", "context_length": 32_000}]
                self.wfile.write(json.dumps({"object": "list", "data": models}).encode())

            def do_POST(self) -> None:
                """Play the next answer."""
                length = int(self.headers.get("content-length", 0))
                server.requests.append(json.loads(self.rfile.read(length)))
                number = len(server.requests)
                if not server.requests[-1].get("stream"):
                    self._head("application/json")
                    self.wfile.write(_whole(server._script[number - 1], number).encode())
                    return
                self._head("text/event-stream")
                for chunk in _chunks(server._script[number - 1], number):
                    try:
                        self.wfile.write(f"data: {chunk}\n\n".encode())
                        self.wfile.flush()
                    except OSError:
                        # The client has hung up, as it should when the user stops the turn.
                        return

            def _head(self, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler


def _chunks(said: Said, number: int) -> Iterator[str]:
    """Yield the events of one streamed answer."""
    for part in said.parts:
        if isinstance(part, Event):
            part.wait(30)
        else:
            yield _chunk({"content": part})
    for index, (name, arguments) in enumerate(said.calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call-{number}-{index}", "type": "function"}
        yield _chunk({"tool_calls": [{**call, "function": function}]})
    usage = {"prompt_tokens": 1_000 * number, "completion_tokens": 50, "total_tokens": 0}
    usage["total_tokens"] = usage["prompt_tokens"] + 50
    yield _chunk({}, finish_reason="tool_calls" if said.calls else "stop")
    yield json.dumps({"id": "x", "object": "chat.completion.chunk", "created": 0, "model": _MODEL,
                      "choices": [], "usage": usage})  # fmt: skip
    yield "[DONE]"


def _whole(said: Said, number: int) -> str:
    """Return an answer of text alone that is not streamed, such as that to a summary."""
    text = "".join(part for part in said.parts if isinstance(part, str))
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 1_000 * number, "completion_tokens": 50, "total_tokens": 0}
    facts = {"id": "x", "object": "chat.completion", "created": 0, "model": _MODEL}
    return json.dumps({**facts, "choices": [choice], "usage": usage})


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    facts = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": _MODEL}
    return json.dumps({**facts, "choices": [choice]})
