"""One configured server: start it, keep it connected, and offer its approved tools."""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from amplifier_core.approval import ApprovalTimeoutError
from amplifier_module_tool_mcp.config import HttpServer, StdioServer
from amplifier_module_tool_mcp.errors import ServerFailure
from amplifier_module_tool_mcp.seen import (
    Definition,
    DefinitionError,
    RecordError,
    read_definition,
    shown_name,
)
from amplifier_module_tool_mcp.surroundings import (
    APPROVED,
    CONNECTED,
    DEGRADED,
    LOST,
    REFUSED,
    STARTING,
    TROUBLE,
    Surroundings,
)
from amplifier_module_tool_mcp.tools import ServerTool, ToolRegistry
from amplifier_sandbox.processes.limits import Limits, SandboxError
from amplifier_sandbox.processes.python_search import searches_folder
from amplifier_sandbox.processes.sandbox import PROTECTED, LaunchSpec, Sandbox, clean_environment
from amplifier_sandbox.visible_text import visible

if TYPE_CHECKING:
    from amplifier_module_tool_mcp.connection import Connection

logger = logging.getLogger(__name__)

_LONGEST_QUESTION = 16_000
_MOST_TOOLS = 256
# Limits of messages about single tools in a session: how many are shown, and how many emitted.
_MOST_SHOWN = 5
_MOST_NOTES = 1_000
_MOST_NAMED = 10


class Server:
    """Has at most one connection, and reconnects when it is lost."""

    def __init__(
        self, name: str, place: StdioServer | HttpServer, around: Surroundings, shelf: ToolRegistry
    ) -> None:
        self.name = name
        self.settings = around.settings
        self._place = place
        self._around = around
        self._shelf = shelf
        self._connection: Connection | None = None
        self._is_closed = False
        self._noted: set[tuple[str, str]] = set()
        self._connecting, self._asking = asyncio.Lock(), asyncio.Lock()
        # With another command or address it is another server, whose tools need new approval.
        if isinstance(place, HttpServer):
            self._identity = place.url
        else:
            self._identity = shlex.join([place.command, *place.args])

    async def connect(self) -> Connection:
        """Return a live connection, after updating the list of tools if it may have changed.

        Raises:
            ServerFailure: the server cannot be reached.
        """
        async with self._connecting:
            connection = self._connection
            if connection is None or connection.is_lost:
                connection = await self._open()
            if connection.is_stale:
                await self._take_stock(connection)
            return connection

    async def call(self, tool: ServerTool, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool once; a call that may have run is never repeated automatically.

        Raises:
            ServerFailure: there is no answer.
        """
        connection = await self.connect()
        # No await between the check and the call: the definition could change in between.
        tool.check(arguments)
        try:
            answer = await connection.call(tool.definition.tool, arguments)
        except ServerFailure as failure:
            message = f"MCP server `{self.name}` {failure}."
            if failure.kind == "connection_lost":
                message += await self._recover(message)
            raise ServerFailure(failure.kind, message) from failure
        if connection.is_stale:
            # A failure is announced to the user; the answer is valid all the same.
            with suppress(ServerFailure):
                await self.connect()
        return answer

    async def close(self) -> None:
        """End the connection and its process, and refuse to connect again."""
        self._is_closed = True
        await self._drop()

    async def ask(self, tool: ServerTool) -> None:
        """Ask the user to approve the definition of a tool, and record the approval.

        Raises:
            ServerFailure: it was not approved.
        """
        async with self._asking:
            definition = tool.definition
            if tool.is_approved:
                return
            try:
                seen = await self._around.record.of(self.name, self._identity) or {}
                await self._put(tool.name, _question(tool.name, seen, definition))
                await self._around.record.add(self.name, self._identity, [definition])
            except RecordError as error:
                raise ServerFailure("not_approved", f"Nothing can be approved: {error}.") from error
            # The server may have replaced the definition while the user read this one.
            tool.is_approved = tool.definition is definition
            line = f"`{tool.name}` was approved."
            await self._around.tell(APPROVED, line, "info", server=self.name, tool=tool.name)

    async def _put(self, tool: str, question: str) -> None:
        """Return if the user allows it; anything else, a timeout or an error too, is a denial."""
        approvals: Any = self._around.coordinator.approval_system
        seconds = self.settings.approval_seconds
        answer = "nobody there"
        if len(question) > _LONGEST_QUESTION:
            answer = f"{len(question)} characters are too many to read; use `trust` if you must"
        elif approvals is not None:
            try:
                async with asyncio.timeout(seconds):
                    answer = await approvals.request_approval(
                        question, ["Allow", "Deny"], seconds, "deny"
                    )
            except (ApprovalTimeoutError, TimeoutError):
                answer = "no answer"
            except Exception:
                logger.exception("approval failed tool=%s", tool)
                answer = "the question failed"
        if answer != "Allow":
            line = f"`{tool}` stays withheld: {answer}."
            await self._around.tell(REFUSED, line, server=self.name, tool=tool)
            raise ServerFailure("not_approved", f"{line} Continue without it.")

    async def _drop(self) -> None:
        connection = self._connection
        self._connection = None
        if connection is not None:
            await connection.close()

    async def _open(self) -> Connection:
        await self._drop()
        make = await self._around.sdk.get()
        place = self._place
        sandbox = self._around.sandbox
        if isinstance(place, HttpServer):
            line = f"Connecting to MCP server `{self.name}` at {place.url}"
            await self._around.tell(STARTING, line, "info", server=self.name, url=place.url)
        else:
            if place.sandbox == "off" or (place.sandbox == "auto" and sandbox.level == "none"):
                sandbox = Sandbox.waived()
            await self._tell_start(place, sandbox)
        # No await from here until the connection is stored: `close` could run in between, and the
        # process would have no owner.
        if self._is_closed:
            raise ServerFailure("unreachable", "The session is over.")
        try:
            if isinstance(place, HttpServer):
                at = place
            else:
                at = self._launch(place, sandbox)
            connection = self._connection = make(at, self.settings, self._trouble)
            await connection.open()
        except (SandboxError, ServerFailure) as error:
            raise await self._unreachable(error) from error
        return connection

    async def _unreachable(self, error: Exception) -> ServerFailure:
        line = f"MCP server `{self.name}` cannot be reached: {error}"
        await self._around.tell(LOST, line, server=self.name)
        return ServerFailure("unreachable", f"{line}. `mcp_load` with one of its names tries again")

    async def _tell_start(self, place: StdioServer, sandbox: Sandbox) -> None:
        argv = [place.command, *place.args]
        facts = {"server": self.name, "level": sandbox.level}
        if not sandbox.protects_paths:
            line = f"MCP server `{self.name}`: {' '.join(sandbox.describe())}"
            await self._around.tell(DEGRADED, line, **facts, reasons=list(sandbox.reasons))
        missing = [name for name in place.env_pass if name not in os.environ]
        if missing:
            await self._trouble(f"is to get {', '.join(missing)}, which is not set")
        line = f"Starting MCP server `{self.name}`: {shlex.join(argv)}"
        await self._around.tell(STARTING, line, "info", **facts, command=argv)

    def _launch(self, place: StdioServer, sandbox: Sandbox) -> LaunchSpec:
        must_protect = place.sandbox == "required" or sandbox.protects_paths
        env = clean_environment(place.env_pass)
        if place.cwd is None and searches_folder([place.command, *place.args]):
            # `python -m` and `python -c` import from the folder they are started in. Not set for
            # every server: a script outside the project imports what is beside it.
            env["PYTHONSAFEPATH"] = "1"
        return sandbox.command(
            [place.command, *place.args],
            workspace=place.cwd or self._around.workspace(),
            env=env,
            network=place.network,
            protected=PROTECTED if must_protect else (),
            read_only=place.read_only_paths,
            writable=place.writable_paths,
            limits=Limits(memory_bytes=None),
        )

    async def _recover(self, line: str) -> str:
        """Announce the loss, reconnect, and return the outcome as text for the model."""
        await self._around.tell(LOST, line, server=self.name)
        try:
            await self.connect()
        except ServerFailure as failure:
            return f" Whether the call took effect is not known. {failure}"
        return (
            " It was connected to again. Whether the call took effect is not known: find out "
            "before you repeat it."
        )

    async def _trouble(self, what: str) -> None:
        await self._around.tell(TROUBLE, f"MCP server `{self.name}` {what}.", server=self.name)

    async def _note(self, event: str, tool: str, what: str) -> None:
        """Report something about a tool once: a server may announce new lists without end."""
        tool = shown_name(tool)
        if (tool, what) in self._noted or len(self._noted) >= _MOST_NOTES:
            return
        self._noted.add((tool, what))
        line = f"MCP server `{self.name}`: `{tool}` {what}."
        facts = {"server": self.name, "tool": tool, "reason": what}
        if len(self._noted) <= _MOST_SHOWN:
            await self._around.tell(event, line, **facts)
            return
        await self._around.announce(event, line, **facts)
        # True only once, because the set grows by one with each note.
        if len(self._noted) == _MOST_SHOWN + 1:
            await self._trouble(f"has more such tools; only the first {_MOST_SHOWN} are named")

    async def _take_stock(self, connection: Connection) -> None:
        """List the tools, offer those whose definition is approved, and withhold the rest."""
        try:
            listed = await connection.list_tools()
        except ServerFailure as failure:
            connection.is_stale = True
            raise await self._unreachable(failure) from failure
        limit = self.settings.max_schema_bytes
        found, refused = await asyncio.to_thread(_read, listed, limit)
        seen = await self._seen(list(found.values()))
        refused = await self._shelf.replace(self, found, seen) | refused
        for tool, reason in refused.items():
            await self._note(REFUSED, tool, f"is not offered: {reason}")
        for tool in (each for each in found.values() if each.hidden):
            await self._note(TROUBLE, tool.tool, f"hid {tool.hidden} characters, now visible")
        offered = [tool.name for tool in self._shelf.of(self) if tool.is_approved]
        withheld = [tool.name for tool in self._shelf.of(self) if not tool.is_approved]
        line = f"MCP server `{self.name}` is connected and offers {len(offered)} tools"
        if withheld:
            if withheld[_MOST_NAMED:]:
                more = f" and {len(withheld) - _MOST_NAMED} more"
            else:
                more = ""
            names = ", ".join(withheld[:_MOST_NAMED])
            line += f"; withheld until you have seen them: {names}{more}"
        facts = {"server": self.name, "tools": offered, "withheld": withheld}
        await self._around.tell(CONNECTED, line, "warning" if withheld else "info", **facts)

    async def _seen(self, found: Sequence[Definition]) -> dict[str, Any]:
        record = self._around.record
        try:
            seen = await record.of(self.name, self._identity)
            if seen is None and self._place.trust:
                await record.add(self.name, self._identity, found)
                line = f"MCP server `{self.name}` is trusted at first sight, as configured."
                await self._around.tell(APPROVED, line, "info", server=self.name)
                return {each.tool: each.stored() for each in found}
        except RecordError as error:
            line = f"Nothing of MCP server `{self.name}` counts as seen: {error}"
            await self._around.tell(REFUSED, line, server=self.name)
            return {}
        return seen or {}


def _read(
    listed: list[dict[str, Any]], most_bytes: int
) -> tuple[dict[str, Definition], dict[str, str]]:
    """Return the valid definitions by tool, and why the others are refused; blocks."""
    found: dict[str, Definition] = {}
    refused: dict[str, str] = {}
    if len(listed) > _MOST_TOOLS:
        refused[listed[_MOST_TOOLS]["name"]] = f"{len(listed)} tools are more than {_MOST_TOOLS}"
    for tool in listed[:_MOST_TOOLS]:
        try:
            found[tool["name"]] = read_definition(tool, most_bytes)
        except DefinitionError as error:
            refused[tool["name"]] = str(error)
    return found, refused


def _question(tool: str, seen: dict[str, Any], definition: Definition) -> str:
    before = seen.get(definition.tool)
    old, new = (
        [] if each is None else json.dumps(each, indent=1, ensure_ascii=False).splitlines()
        for each in (before, definition.stored())
    )
    changes = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
    if before:
        what = "has changed since it was approved"
    else:
        what = "is new"
    lines = "\n".join(map(visible, changes))
    return f"The MCP tool `{tool}` {what}. Let the model see and call it?\n{lines}"
