"""Runs one confined program: reads its output, limits its time, and always ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from amplifier_sandbox.platforms.process_end import end_of
from amplifier_sandbox.platforms.signals import KILL, STOP, end_group
from amplifier_sandbox.processes.disk_use import processes_below
from amplifier_sandbox.processes.sandbox import LaunchSpec

logger = logging.getLogger(__name__)

Ending = Literal["exited", "timed out", "wrote too much", "stopped"]
Listener = Callable[[str, bytes], None]
Watch = Callable[[int], Coroutine[Any, Any, str]]
"""Takes the number of a program's first process; returns when the program must stop, and why."""

_CHUNK_BYTES = 65_536
# How long to wait for the end of a program and of all it started.
_PATIENCE_SECONDS = 1.5
_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended."""

    ending: Ending
    exit_code: int
    seconds: float
    memory_kills: int
    # Why a watch stopped it.
    reason: str = ""


class Program:
    """One running program; `end` ends it and everything it started."""

    __slots__ = (
        "_end_watch",
        "_ended",
        "_launch",
        "_listener",
        "_loop",
        "_open",
        "_process",
        "_quiet",
    )

    def __init__(self, launch: LaunchSpec, listener: Listener) -> None:
        """Start it; `listener` gets the name of a stream and its next bytes.

        Raises:
            OSError: it cannot be started.
        """
        self._launch = launch
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._ended, self._quiet = asyncio.Event(), asyncio.Event()
        # Started synchronously: a cancellation during an await would leave it without an owner.
        self._process = subprocess.Popen(
            launch.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=launch.env,
            cwd=launch.cwd,
            pass_fds=launch.pass_fds,
            start_new_session=True,
            bufsize=0,
        )
        self._end_watch = self._watched_end()
        self._open: dict[str, int] = {}
        for name, pipe in (("stdout", self._process.stdout), ("stderr", self._process.stderr)):
            if pipe is not None:
                # Windows has neither; there the line above has raised.
                if sys.platform != "win32":
                    os.set_blocking(pipe.fileno(), False)
                self._open[name] = pipe.fileno()
                self._loop.add_reader(pipe.fileno(), self._read, name)

    @property
    def pid(self) -> int:
        """The id of its first process."""
        return self._process.pid

    async def wait(self) -> None:
        """Wait until it has ended."""
        await self._ended.wait()

    async def end(self) -> int:
        """End it with all it started, close its pipes, and return its exit code."""
        try:
            if not self._ended.is_set():
                if self._launch.kills_below:
                    await asyncio.to_thread(self._kill_below)
                self._signal(self._launch.kill_signal)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._settle()
        finally:
            self._let_go()
        return self._process.returncode

    async def _settle(self) -> None:
        """Wait for its last process, which closes the pipes and leaves the group."""
        await self._ended.wait()
        await self._quiet.wait()
        group = self._launch.group
        while group is not None and not group.is_empty():  # noqa: ASYNC110 - a file, not an event
            await asyncio.sleep(_POLL_SECONDS)

    def _let_go(self) -> None:
        if self._launch.group is not None:
            self._launch.group.kill()
        # Before `wait` reaps the process, after which another group could have its number.
        self._signal(KILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_SECONDS)
        for name in list(self._open):
            self._close(name)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._loop.remove_reader(self._end_watch)
        os.close(self._end_watch)

    def _watched_end(self) -> int:
        """Return a descriptor that becomes readable when the first process ends."""
        try:
            descriptor = end_of(self._process.pid)
        except OSError:
            self._process.kill()
            self._process.communicate()
            raise
        self._loop.add_reader(descriptor, self._end)
        return descriptor

    def _signal(self, number: signal.Signals) -> None:
        end_group(self._process.pid, number)

    def _kill_below(self) -> None:
        """Kill what the program has started; stopped first, so that nothing continues meanwhile."""
        self._signal(STOP)
        try:
            self._kill_new_ones({self.pid})
        except OSError:
            # Those of the group are killed in any case.
            logger.exception("processes cannot be listed program=%s", self.pid)

    def _kill_new_ones(self, killed: set[int]) -> None:
        # In rounds, because a process may have forked before it was stopped.
        while found := processes_below([self.pid]).keys() - killed:
            for number in (STOP, KILL):
                for process in found:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(process, number)
            killed |= found

    def _end(self) -> None:
        self._loop.remove_reader(self._end_watch)
        self._ended.set()

    def _read(self, name: str) -> None:
        try:
            data = os.read(self._open[name], _CHUNK_BYTES)
        except BlockingIOError:
            return
        if data:
            self._listener(name, data)
        else:
            self._close(name)

    def _close(self, name: str) -> None:
        self._loop.remove_reader(self._open.pop(name))
        if not self._open:
            self._quiet.set()


async def run(
    launch: LaunchSpec,
    listener: Listener,
    *,
    seconds: float | None,
    most_bytes: int,
    watch: Watch | None = None,
) -> Outcome:
    """Run a program to its end, or until `seconds` have passed or it has written `most_bytes`.

    Without `seconds` it may run as long as it likes.

    It is also ended when `watch` returns or fails.

    However this ends, also by cancellation, no process of the program is left.

    Raises:
        OSError: it cannot be started.
    """
    written = 0
    too_much = asyncio.Event()

    def count(stream: str, data: bytes) -> None:
        nonlocal written
        written += len(data)
        listener(stream, data)
        if written > most_bytes:
            too_much.set()

    started = time.monotonic()
    program = Program(launch, count)
    waits: list[asyncio.Task[Any]] = [
        asyncio.create_task(program.wait()),
        asyncio.create_task(too_much.wait()),
    ]
    if watch is None:
        watching = None
    else:
        watching = asyncio.create_task(watch(program.pid))
    if watching is not None:
        waits.append(watching)
    reason = ""
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        ending = _ending(has_ended=waits[0].done(), has_too_much=too_much.is_set())
        if watching is not None and watching.done() and ending == "timed out":
            ending = "stopped"
            reason = _reason_of(watching)
    finally:
        for wait in waits:
            wait.cancel()
        exit_code = await program.end()
    if launch.group is None:
        kills = 0
    else:
        kills = launch.group.memory_kills()
    return Outcome(ending, exit_code, time.monotonic() - started, kills, reason)


def _reason_of(watching: asyncio.Task[str]) -> str:
    error = watching.exception()
    if error is None:
        return watching.result()
    logger.error("a watch failed", exc_info=error)
    return f"its use of the machine could not be watched ({type(error).__name__})"


def _ending(*, has_ended: bool, has_too_much: bool) -> Ending:
    if has_too_much:
        return "wrote too much"
    if has_ended:
        return "exited"
    return "timed out"
