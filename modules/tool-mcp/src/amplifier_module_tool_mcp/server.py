"""One configured server: started, kept connected, and its tools offered once somebody saw them."""

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
from amplifier_module_tool_mcp.tools import ServerTool, Shelf
from amplifier_sandbox.processes.limits import Limits, SandboxError
from amplifier_sandbox.processes.python_search import searches_folder
from amplifier_sandbox.processes.sandbox import PROTECTED, LaunchSpec, Sandbox, clean_environment
from amplifier_sandbox.visible_text import visible

if TYPE_CHECKING:
    from amplifier_module_tool_mcp.connection import Connection

logger = logging.getLogger(__name__)

_LONGEST_QUESTION = 16_000
_MOST_TOOLS = 256
# What is odd about single tools: so much is shown, and so much recorded, for a whole session.
_MOST_SHOWN = 5
_MOST_NOTES = 1_000
_MOST_NAMED = 10


class Server:
    """Holds at most one connection, and makes a new one when that is lost."""

    def __init__(
        self, name: str, place: StdioServer | HttpServer, around: Surroundings, shelf: Shelf
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
        # A server that is started or found differently is another one, and has to be seen anew.
        if isinstance(place, HttpServer):
            self._identity = place.url
        else:
            self._identity = shlex.join([place.command, *place.args])

    async def connect(self) -> Connection:
        """Return a connection that is alive, with the tools as they are listed now.

        Raises:
            ServerFailure: there is none to be had.
        """
        async with self._connecting:
            connection = self._connection
            if connection is None or connection.is_lost:
                connection = await self._open()
            if connection.is_stale:
                await self._take_stock(connection)
            return connection

    async def call(self, tool: ServerTool, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool once; what may have run is never run again unasked.

        Raises:
            ServerFailure: there is no answer.
        """
        connection = await self.connect()
        # Nothing is awaited between the check and the call: it is what was checked that is called.
        tool.check(arguments)
        try:
            answer = await connection.call(tool.definition.tool, arguments)
        except ServerFailure as failure:
            message = f"MCP server `{self.name}` {failure}."
            if failure.kind == "connection_lost":
                message += await self._recover(message)
            raise ServerFailure(failure.kind, message) from failure
        if connection.is_stale:
            # The person is told when this fails; the answer is there all the same.
            with suppress(ServerFailure):
                await self.connect()
        return answer

    async def close(self) -> None:
        """End the connection, and the process when it has one; there is no other after it."""
        self._is_closed = True
        await self._drop()

    async def ask(self, tool: ServerTool) -> None:
        """Show the person what the server says of a tool, and write down a yes.

        Raises:
            ServerFailure: it was not a yes.
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
            tool.is_approved = tool.definition is definition
            line = f"`{tool.name}` was approved."
            await self._around.tell(APPROVED, line, "info", server=self.name, tool=tool.name)

    async def _put(self, tool: str, question: str) -> None:
        """Return when the answer is yes; anything else, silence and failure too, is a no."""
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
            raise ServerFailure("not_approved", f"{line} Go on without it.")

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
        # From here on nothing is awaited before the connection is in our care.
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
        if sandbox.level != "bubblewrap":
            line = f"MCP server `{self.name}`: {' '.join(sandbox.describe())}"
            await self._around.tell(DEGRADED, line, **facts, reasons=list(sandbox.reasons))
        missing = [name for name in place.env_pass if name not in os.environ]
        if missing:
            await self._trouble(f"is to get {', '.join(missing)}, which is not set")
        line = f"Starting MCP server `{self.name}`: {shlex.join(argv)}"
        await self._around.tell(STARTING, line, "info", **facts, command=argv)

    def _launch(self, place: StdioServer, sandbox: Sandbox) -> LaunchSpec:
        must_protect = place.sandbox == "required" or sandbox.level == "bubblewrap"
        env = clean_environment(place.env_pass)
        if place.cwd is None and searches_folder([place.command, *place.args]):
            # Started in the folder of the session, Python would import what lies there.
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
        """Tell of the loss, connect again and return what came of it, for the model."""
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
        """Report of a tool what is new: a server may have itself listed as often as it likes."""
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
        # Asked only once: the set grows by one with each note.
        if len(self._noted) == _MOST_SHOWN + 1:
            await self._trouble(f"has more such tools; only the first {_MOST_SHOWN} are named")

    async def _take_stock(self, connection: Connection) -> None:
        """List the tools, and offer those that are as they were seen; withhold the rest."""
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
    """Return the usable definitions by tool, and why the others are not; takes a while."""
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
