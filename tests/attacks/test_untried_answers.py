"""Answers of a provider without end: bounded memory, a message, and a session that works on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from attacks.machine import Machine
from end_to_end.model_server import ModelServer, Said

_MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "context_length": 32_000}]}
# Says how much memory the command took at most, in kilobytes.
_MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""


class _Endless(BaseHTTPRequestHandler):
    """Answers with one line that has no end."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(_MODELS).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for _ in range(1_000):
                self.wfile.write(b"x" * 1_000_000)
        except OSError:
            pass

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def endless() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Endless)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.mark.slow
@pytest.mark.attack("review untried")
def test_an_answer_without_end_fails_the_turn_with_a_message(
    machine: Machine, endless: str
) -> None:
    machine.environment["OPENAI_BASE_URL"] = endless
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, sys.executable, "-m", "amplifier_cli", "run", "x"],
        cwd=machine.project,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    with ModelServer([Said(["fine again"])]) as server:
        machine.use(server)
        again = machine.amplifier("run", "--resume", "last", "y")

    assert done.returncode == 5, done.stderr
    assert "the answer has more than 67,108,864 bytes" in done.stderr
    assert "Traceback" not in done.stderr
    # The bound, a copy of it that the SDK makes of a line, and the program itself.
    assert int(done.stdout.split()[-1]) < 700_000
    assert again.stdout.strip() == "fine again", again.stderr
