"""A server's process: its pipes as the streams the SDK speaks through, and its certain end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from signal import SIGKILL
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from amplifier_module_tool_mcp.intake import Pace
from amplifier_sandbox.processes.sandbox import LaunchSpec
from amplifier_sandbox.visible_text import visible

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 65_536
_TAIL_BYTES = 1_000
_LOGGED_BYTES_PER_SECOND = 10_000
_KILL_SECONDS = 1.5
_POLL_SECONDS = 0.01


class ServerProcess:
    """One running server. `ended` is set when it stops speaking; `pace` reports what is odd."""

    def __init__(self, launch: LaunchSpec, ended: asyncio.Event, pace: Pace) -> None:
        self._launch = launch
        self._ended = ended
        self._pace = pace
        self._tail = b""

    @property
    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        return visible(self._tail.decode(errors="replace")).strip()

    @asynccontextmanager
    async def streams(self, most_bytes: int, grace: float) -> AsyncGenerator[Any]:
        """Start it, give the two streams for the SDK, and end it with all that it started."""
        with self._launch as launch:
            process = await asyncio.create_subprocess_exec(
                *launch.argv,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=launch.env,
                cwd=launch.cwd,
                pass_fds=launch.pass_fds,
                start_new_session=True,
                limit=most_bytes,
            )
            inbox, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            write_stream, outbox = anyio.create_memory_object_stream[SessionMessage](0)
            with inbox, read_stream, write_stream, outbox:
                tasks = [
                    asyncio.create_task(self._listen(process, inbox)),
                    asyncio.create_task(self._speak(process, outbox)),
                    asyncio.create_task(self._read_errors(process)),
                ]
                try:
                    yield read_stream, write_stream
                finally:
                    await self._end(process, tasks, grace)

    async def _listen(self, process: Process, inbox: Any) -> None:
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                try:
                    # Parsed apart: the adapter would parse a large message once for each type.
                    message = jsonrpc_message_adapter.validate_python(
                        json.loads(line), by_name=False
                    )
                except (ValueError, RecursionError):
                    what = "writes to its output what is no message; it is ignored"
                    await self._pace.report_once(what)
                    # Lines that are there already are read without a wait, so the pace has to.
                    await self._pace.take(len(line))
                    continue
                await self._pace.take(len(line))
                # When nobody listens any more, it is read on, so that it can write and end.
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await inbox.send(SessionMessage(message))
        except ValueError:
            await self._pace.report_once("wrote a message longer than `max_message_bytes`")
        finally:
            inbox.close()
            self._ended.set()

    async def _speak(self, process: Process, outbox: Any) -> None:
        assert process.stdin is not None
        with suppress(ConnectionError):
            async for sent in outbox:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()

    async def _read_errors(self, process: Process) -> None:
        assert process.stderr is not None
        second = 0
        logged = 0
        while data := await process.stderr.read(_CHUNK_BYTES):
            self._tail = (self._tail + data)[-_TAIL_BYTES:]
            now = int(time.monotonic())
            second, logged = now, (logged if now == second else 0) + len(data)
            if logged <= _LOGGED_BYTES_PER_SECOND:
                logger.debug("mcp server says %s", visible(data.decode(errors="replace")))
            else:
                await self._pace.report_once("floods its standard error; most of it is not logged")

    async def _end(self, process: Process, tasks: list[asyncio.Task[None]], grace: float) -> None:
        """Ask it to end, then make it; shielded, and every wait has a limit."""
        assert process.stdin is not None
        with anyio.CancelScope(shield=True):
            try:
                process.stdin.close()
                if not await self._is_gone(process, grace):
                    await self._pace.report_once("did not end when it was asked to, and was killed")
            finally:
                # Also when this very task is cancelled: nothing is awaited before the kill.
                self._kill(process, self._launch.kill_signal)
            if not await self._is_gone(process, _KILL_SECONDS):
                self._kill(process, SIGKILL)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(_KILL_SECONDS):
                    await process.communicate()
            if self._launch.group is not None:
                self._launch.group.kill()

    async def _is_gone(self, process: Process, seconds: float) -> bool:
        # `wait` would also wait for whoever else holds the pipes.
        end = time.monotonic() + seconds
        while process.returncode is None:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def _kill(self, process: Process, number: int) -> None:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
