"""A service of the examples in a process of its own, and a client that reads its events."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import httpx

from docs.documents import ROOT

SECONDS = 60
"""How long a server may take to start, and to answer."""


@contextlib.contextmanager
def serve(python: str, folder: Path, app: str, store: Path) -> Generator[httpx.Client]:
    """Run a service in a process of its own; it is killed at the end, not asked to stop."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = ["-m", "uvicorn", "--app-dir", str(folder), app, "--port", str(port)]
    log = (store / "server.log").open("a")
    server = subprocess.Popen(
        [python, *command],
        cwd=ROOT,
        env={**os.environ, "SUPPORT_STORE": str(store)},
        stdout=log,
        stderr=log,
    )
    # A connection for each request: uvicorn closes one whose request raised an error, and the next
    # request on it fails if it is sent before.
    alone = httpx.Limits(max_keepalive_connections=0)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS, limits=alone)
    try:
        _wait_for(client, store / "server.log")
        yield client
    finally:
        # Before the client closes its connections, which the server would take for a disconnect.
        server.kill()
        server.wait()
        client.close()
        log.close()


def _wait_for(client: httpx.Client, log: Path) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(httpx.TransportError):
            if client.get("/openapi.json").is_success:
                return
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def read_events(response: httpx.Response) -> Iterator[tuple[str, object]]:
    """Yield the events of a stream as they arrive."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def ask(client: httpx.Client, path: str, prompt: str) -> list[tuple[str, object]]:
    """Send a prompt and return all events of its answer."""
    with client.stream("POST", path, json={"prompt": prompt}) as response:
        return list(read_events(response))
