"""The workers: real processes, started from warm code, killed and paused from outside."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from decimal import Decimal
from multiprocessing.process import BaseProcess
from pathlib import Path

from amplifier_kit.calls.settings import Pricing
from amplifier_runtime.children.children import Children
from amplifier_runtime.database.database import Database
from amplifier_runtime.limits.limits import Limits
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.signals.watcher import SignalWatch
from amplifier_runtime.worker.worker import WorkerSettings, run_worker
from chaos.script import PUBLISHED_LOOP
from chaos.stage import Stage, Trace

_LEAVING_SECONDS = 45.0
LOG_FORMAT = "%(asctime)s %(name)s %(message)s"
# It is not the fault of a turn that its workers are killed.
_NO_CRASH_LIMIT = 1_000_000


@dataclass(frozen=True)
class Workplace:
    """What a worker has to know."""

    url: str
    folder: Path
    port: int
    seed: int
    beat_seconds: float
    dead_after_seconds: float
    concurrency: int
    loop: Path | None


def work(place: Workplace) -> None:
    """Be a worker until SIGTERM."""
    log = (place.folder / f"worker-{os.getpid()}.log").open("ab")
    for said in (1, 2):
        os.dup2(log.fileno(), said)
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    if place.loop is not None:
        plant(place.loop)
    prices = {"remote": Pricing(input=Decimal(1), output=Decimal(1))}
    parts = [
        SessionLog(Database(place.url, connections=4)),
        SignalWatch(),
        Children(),
        Limits(prices=prices),
        Stage(place.port, Trace(place.folder / "effects"), place.seed),
    ]
    settings = WorkerSettings(
        place.url,
        concurrency=place.concurrency,
        beat_seconds=place.beat_seconds,
        dead_after_seconds=place.dead_after_seconds,
        crash_limit=_NO_CRASH_LIMIT,
        parts=parts,
    )
    asyncio.run(run_worker(settings))


def plant(package: Path) -> None:
    """Import a loop that is not installed, under a name that no installed one has."""
    name = f"amplifier_module_{PUBLISHED_LOOP.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


class Fleet:
    """A fixed number of places, each with the worker that is there now, if one is."""

    def __init__(self, place: Workplace, size: int) -> None:
        self.size = size
        self._place = place
        self._processes: dict[int, BaseProcess] = {}
        self._paused: set[int] = set()
        assert sys.platform != "win32", "Windows has no fork server"
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["chaos.fleet"])

    def start(self, slot: int) -> None:
        """Put a new worker at a place."""
        assert sys.platform != "win32", "Windows has no fork server"
        process = self._context.Process(target=work, args=(self._place,), daemon=True)
        process.start()
        self._processes[slot] = process

    def awake(self) -> list[int]:
        """Return the places whose workers run."""
        return [
            slot
            for slot, process in sorted(self._processes.items())
            if slot not in self._paused and process.is_alive()
        ]

    def revive(self) -> int:
        """Put a new worker where one has ended by itself; returns how many had."""
        ended = [slot for slot, each in self._processes.items() if each.exitcode is not None]
        for slot in ended:
            self.start(slot)
        return len(ended)

    def address(self, slot: int) -> str:
        """Return what the worker at a place calls itself in the database."""
        return f"{socket.gethostname()}:{self._processes[slot].pid}"

    def kill(self, slot: int) -> float:
        """Kill the worker at a place; returns when."""
        process = self._processes.pop(slot)
        process.kill()
        at = time.time()
        process.join()
        return at

    def pause(self, slot: int) -> None:
        """Stop the worker at a place where it is."""
        assert sys.platform != "win32", "Windows does not stop a process for a while"
        self._paused.add(slot)
        self._signal(slot, signal.SIGSTOP)

    def resume(self, slot: int) -> None:
        """Let it go on."""
        assert sys.platform != "win32", "Windows does not stop a process for a while"
        self._signal(slot, signal.SIGCONT)
        self._paused.discard(slot)

    def _signal(self, slot: int, number: signal.Signals) -> None:
        pid = self._processes[slot].pid
        assert pid is not None
        os.kill(pid, number)

    async def leave(self) -> list[int | None]:
        """Have all workers leave in good order; returns their exit codes."""
        for slot in list(self._paused):
            self.resume(slot)
        for process in self._processes.values():
            process.terminate()
        until = time.monotonic() + _LEAVING_SECONDS
        for process in self._processes.values():
            await asyncio.to_thread(process.join, max(0.0, until - time.monotonic()))
        codes = [process.exitcode for process in self._processes.values()]
        for process in self._processes.values():
            process.kill()
        return codes
