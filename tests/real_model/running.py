"""The inference server as a process of its own, and what it says about itself."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple
from urllib.request import urlopen

_SERVER = Path(__file__).with_name("server.py")
_START_SECONDS = 60.0


class RealModel(NamedTuple):
    """A model that can be asked at `url`, which has no path."""

    url: str
    name: str
    # Tokens, as the server counts them.
    window: int

    def is_busy(self) -> bool:
        """Whether the server is working on an answer."""
        return any(slot["is_processing"] for slot in _read(f"{self.url}/slots"))


@contextmanager
def running_server() -> Generator[RealModel]:
    """Start the server, give what it serves, and end it."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, str(_SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        deadline = Timer(_START_SECONDS, process.kill)
        deadline.start()
        with process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().strip()
                deadline.cancel()
                if not url:
                    log.seek(0)
                    raise RuntimeError(f"The server did not start.\n{log.read()}")
                [served] = _read(f"{url}/v1/models")["data"]
                yield RealModel(url, served["id"], served["meta"]["n_ctx"])
            finally:
                process.kill()


def _read(url: str) -> Any:
    with urlopen(url, timeout=30) as answer:
        return json.load(answer)
