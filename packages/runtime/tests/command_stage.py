"""Workers started as the command that people type, with the modules of the tests."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from runtime_stage import Trace

TESTS = Path(__file__).parent
AMPLIFIER = Path(sys.executable).parent / "amplifier"


class Started(NamedTuple):
    """A worker in a process of its own."""

    worker_id: str
    process: subprocess.Popen[str]


class Workers:
    """Starts workers and ends what is left of them."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []
        self.trace = Trace(folder / "trace")

    def start(self, *options: str) -> Started:
        """Start a worker and wait until it is there."""
        process = self.begin(*options)
        assert process.stdout is not None
        worker_id, _, said = process.stdout.readline().partition(" ")
        assert said.startswith("runs up to"), "the worker did not start"
        return Started(worker_id, process)

    def begin(self, *options: str) -> subprocess.Popen[str]:
        """Start a worker; what it says, errors too, is in its `stdout`."""
        command = [sys.executable, "-u", "-m", "amplifier_runtime.commands.worker"]
        process = subprocess.Popen(
            [*command, "--database", self._url, *options],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._processes.append(process)
        return process

    def plan(self, **config: Any) -> dict[str, Any]:
        """Return a plan whose model and tools leave a trace."""
        held = {"module": "provider-held", "config": {"folder": str(self._folder), **config}}
        session = {"orchestrator": "loop-basic", "context": "context-simple"}
        return {"session": session, "providers": [held]}

    async def typed(self, *words: str) -> str:
        """Return what a command for the operator prints."""
        done = await asyncio.to_thread(
            subprocess.run,
            [str(AMPLIFIER), "runtime", *words, "--database", self._url],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def release(self) -> None:
        """Let those go on that are held."""
        (self._folder / "release").touch()

    def end(self) -> None:
        """Kill those that still run."""
        for process in self._processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
