"""One connection to a server through the SDK; imported in a thread, because the SDK is large."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import httpx2
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import CallToolResult, Implementation, ListToolsResult, ToolListChangedNotification
from pydantic import BaseModel, ValidationError

import amplifier_core
from amplifier_kit.valid_text import valid
from amplifier_module_tool_mcp.config import HttpServer, McpConfig
from amplifier_module_tool_mcp.errors import ServerFailure
from amplifier_module_tool_mcp.transports import HttpLimits, Intake, Pace, Report, ServerProcess
from amplifier_sandbox.processes.sandbox import LaunchSpec

logger = logging.getLogger(__name__)

_MOST_PAGES = 20
# Far more tools than are offered; further pages are not requested.
_ENOUGH_TOOLS = 10_000
_LONGEST_REASON = 500
_OURSELVES = Implementation(name="amplifier", version=amplifier_core.__version__)
# Messages by which the SDK reports a lost connection. Its error code cannot be used: servers may
# answer with the same one.
_LOSSES = ("Connection closed", "Session terminated", "SSE stream")
# No read timeout: a response stream stays open while a tool works, and each call has its own limit.
_HTTP_TIMEOUT = httpx2.Timeout(30, read=None)


class Connection:
    """A session with a server.

    One task enters and exits the SDK's context managers: anyio's cancel scopes must be closed by
    the task that opened them.
    """

    def __init__(self, place: LaunchSpec | HttpServer, settings: McpConfig, report: Report) -> None:
        self._settings = settings
        self._pace = Pace(report)
        self._stop = asyncio.Event()
        self._opened: asyncio.Future[JSONRPCDispatcher[Any]] = asyncio.Future()
        self._process: ServerProcess | None = None
        if isinstance(place, LaunchSpec):
            self._process = ServerProcess(place, self._stop, self._pace)
            streams = self._process.streams(settings.max_message_bytes, settings.shutdown_seconds)
        else:
            streams = _http_streams(place, settings.max_message_bytes, self._pace)
        # Whether the list of tools has to be read (again).
        self.is_stale = True
        self._why = "the connection was closed"
        self._owner = asyncio.create_task(self._own(streams))

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        return self._stop.is_set() or self._owner.done()

    async def open(self) -> None:
        """Wait until the server is ready.

        Raises:
            ServerFailure: it did not become ready.
        """
        try:
            await asyncio.wait({self._owner, self._opened}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.close()
            raise
        if not self._opened.done():
            await self.close()
            raise ServerFailure("unreachable", self._why)

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the server's tools as it defines them.

        Raises:
            ServerFailure: it did not list them.
        """
        self.is_stale = False
        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        # One deadline for all pages: a server could answer each of them just in time.
        end = time.monotonic() + self._settings.connect_seconds
        for _ in range(_MOST_PAGES):
            params = {} if cursor is None else {"cursor": cursor}
            try:
                page = await self._ask(
                    "tools/list", params, ListToolsResult, end - time.monotonic()
                )
            except ServerFailure as failure:
                if failure.kind != "timeout":
                    raise
                why = f"did not list its tools within {self._settings.connect_seconds:g} s"
                raise ServerFailure("timeout", why) from None
            tools += page["tools"]
            cursor = page.get("nextCursor")
            if cursor is None or len(tools) > _ENOUGH_TOOLS:
                return tools
        raise ServerFailure("server_error", f"its list of tools has more than {_MOST_PAGES} pages")

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool once and return the answer.

        Raises:
            ServerFailure: there is no valid answer.
        """
        params = {"name": tool, "arguments": arguments}
        seconds = self._settings.call_seconds
        return await self._ask("tools/call", params, CallToolResult, seconds)

    async def close(self) -> None:
        """End the connection and the server's process, in limited time."""
        self._stop.set()
        if not self._opened.done():
            self._owner.cancel()
        _, late = await asyncio.wait({self._owner}, timeout=self._settings.shutdown_seconds + 5)
        if late:
            self._owner.cancel()
            await asyncio.wait(late, timeout=5)

    async def _own(self, streams: AbstractAsyncContextManager[Any]) -> None:
        try:
            async with streams as (reader, writer):
                intake = Intake(reader, writer, self._pace)
                dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(intake.reader, intake.writer)
                await self._converse(dispatcher)
        except Exception as error:
            # Reported by `open`; after that, calls find out that the connection is lost.
            logger.debug("mcp connection ended", exc_info=True)
            self._why = self._explain(error)
        finally:
            self._stop.set()

    async def _converse(self, dispatcher: JSONRPCDispatcher[Any]) -> None:
        session = ClientSession(
            dispatcher=dispatcher, message_handler=self._hear, client_info=_OURSELVES
        )
        async with session:
            async with asyncio.timeout(self._settings.connect_seconds):
                await session.initialize()
            self._opened.set_result(dispatcher)
            await self._stop.wait()

    async def _ask(
        self, method: str, params: dict[str, Any], kind: type[BaseModel], seconds: float
    ) -> dict[str, Any]:
        # Not through the SDK's session: it matches answers against regular expressions that the
        # server supplies, and validates large ones long enough to block the event loop.
        try:
            async with asyncio.timeout(seconds):
                answer = await self._opened.result().send_raw_request(method, params)
            kind.model_validate(answer, by_name=False)
        except TimeoutError:
            raise ServerFailure("timeout", f"gave no answer within {seconds:g} s") from None
        except (ValidationError, RecursionError) as error:
            raise ServerFailure("server_error", "answered against the protocol") from error
        except MCPError as error:
            if self.is_lost or error.message.startswith(_LOSSES):
                self._stop.set()
                reason = f"ended in mid-call{self._last_words()}"
                raise ServerFailure("connection_lost", reason) from None
            raise ServerFailure("server_error", f"refused: {error.message[:2_000]}") from None
        # In a thread, because a list of tools may have megabytes.
        return await asyncio.to_thread(valid, answer)

    async def _hear(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.is_stale = True

    def _explain(self, error: BaseException) -> str:
        while isinstance(error, ExceptionGroup):
            error = cast("ExceptionGroup[Exception]", error).exceptions[0]
        if isinstance(error, TimeoutError):
            return f"not ready within {self._settings.connect_seconds:g} s{self._last_words()}"
        # The text may come from the server, so it is cut and put on one line.
        reason = " ".join(str(error)[:_LONGEST_REASON].split())
        return f"{reason or type(error).__name__}{self._last_words()}"

    def _last_words(self) -> str:
        if self._process is not None:
            words = self._process.last_words
        else:
            words = ""
        if words:
            return f"; its last words: {words}"
        return ""


@asynccontextmanager
async def _http_streams(server: HttpServer, most_bytes: int, pace: Pace) -> AsyncGenerator[Any]:
    headers = {name: value.get_secret_value() for name, value in server.headers.items()}
    hooks = HttpLimits(most_bytes, pace).hooks
    # In a thread: the client loads all certificates of the system.
    client = await asyncio.to_thread(
        httpx2.AsyncClient, headers=headers, timeout=_HTTP_TIMEOUT, event_hooks=hooks
    )
    speaking = streamable_http_client(server.url, http_client=client, max_sse_event_size=most_bytes)
    async with client, speaking as streams:
        yield streams
