"""What the tests of the session store share: a home of their own, and other processes in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.store import SessionStore

# A process that does what it is told, one line of JSON at a time, and says how it went.
CHILD = """
import json, sys
from pathlib import Path
from amplifier_foundation.store import SessionStore
store, writer = SessionStore(Path(sys.argv[1])), None
for line in sys.stdin:
    name, *args = json.loads(line)
    try:
        if name in ("create", "open"):
            options = {"project": Path("/srv/p")} if name == "create" else {"takeover": bool(args)}
            writer = getattr(store, name)("s", **options)
            answer = [writer.seq]
        else:
            answer = getattr(writer, name)(*args)
    except Exception as error:
        answer = [type(error).__name__, str(error), getattr(error, "fix", "")]
    print(json.dumps(answer), flush=True)
"""

Make = Callable[..., "Process"]


class Process:
    """Another process on the same home."""

    def __init__(self, home: Path, *before: str) -> None:
        command = [*before, sys.executable, "-c", CHILD, str(home)]
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.pid = self.child.pid

    def tell(self, *words: Any) -> None:
        """Say what to do, without waiting for it."""
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(words) + "\n")
        self.child.stdin.flush()

    def answer(self) -> Any:
        """Return how the last thing went."""
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert line, "the process has ended"
        return json.loads(line)

    def ask(self, *words: Any) -> Any:
        """Say what to do and return how it went."""
        self.tell(*words)
        return self.answer()

    def end(self) -> None:
        """Kill it, if it still lives, and wait for its end."""
        self.child.kill()
        self.child.communicate()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's own folder."""
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder that sessions work in."""
    return tmp_path / "project"


@pytest.fixture
def store(home: Path) -> SessionStore:
    """The store of this test."""
    return SessionStore(home)


@pytest.fixture
def log(store: SessionStore, project: Path) -> Path:
    """The log of a session `s` with three records, closed."""
    with store.create("s", project=project) as writer:
        for text in ("one", "two", "three"):
            writer.append("prompt", {"text": text})
    return writer.folder / "log.jsonl"


@pytest.fixture
def start(home: Path) -> Generator[Make]:
    """Start another process on the same home; it ends with the test."""
    started: list[Process] = []

    def make(*before: str) -> Process:
        started.append(Process(home, *before))
        return started[-1]

    yield make
    for each in started:
        each.end()
