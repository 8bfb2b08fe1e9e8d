"""The tools of servers as the model sees them, their results, and the registry of tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit.tokens import CHARS_PER_TOKEN, window_of
from amplifier_module_tool_mcp.config import McpConfig
from amplifier_module_tool_mcp.errors import ServerFailure
from amplifier_module_tool_mcp.seen import Definition, mounted_name
from amplifier_module_tool_mcp.surroundings import TROUBLE, Surroundings

_MOST_IMAGES = 10


def failure(error: ServerFailure) -> ToolResult:
    """Return the result of a failed call."""
    return ToolResult(success=False, error={"message": str(error), "type": error.kind})


def to_result(answer: dict[str, Any], server: str, most_chars: int) -> ToolResult:
    """Return a server's answer, marked with `trusted: false`."""
    blocks = cast("list[dict[str, Any]]", answer.get("content") or [])
    images = [block for block in blocks if block["type"] == "image"]
    text = "\n".join(_text(block) for block in blocks if block["type"] != "image")
    output: dict[str, Any] = {"server": server, "trusted": False}
    structured = answer.get("structuredContent")
    if structured is not None:
        written = json.dumps(structured, ensure_ascii=False)
        output["structured"] = structured if len(written) <= most_chars else None
        if output["structured"] is None or not _says_the_same(text, structured):
            output["text"] = shortened(text or written, most_chars)
    else:
        output["text"] = shortened(text, most_chars)
    if len(images) > _MOST_IMAGES:
        output["images_left_out"] = len(images) - _MOST_IMAGES
    if answer.get("isError"):
        message = shortened(text, 2_000) or "The server reports an error and says nothing else."
        error = {"message": message, "type": "tool_error"}
        return ToolResult(success=False, output=output, error=error)
    return _with_images(output, images[:_MOST_IMAGES])


def shortened(text: str, most_chars: int) -> str:
    """Return the beginning and the end of a text that is too long, with how much is missing."""
    missing = len(text) - most_chars
    if missing <= 0:
        return text
    half = most_chars // 2
    return f"{text[:half]}\n[{missing} of {len(text)} characters left out]\n{text[-half:]}"


def _text(block: dict[str, Any]) -> str:
    if block["type"] == "text":
        return block["text"]
    if block["type"] == "resource" and "text" in block["resource"]:
        return f"[{block['resource'].get('uri')}]\n{block['resource']['text']}"
    if block["type"] == "resource_link":
        return f"[link to {block.get('uri')}: {block.get('name')}]"
    return f"[{block['type']} left out: it cannot be shown to the model]"


def _says_the_same(text: str, structured: Any) -> bool:
    try:
        return not text or json.loads(text) == structured
    except ValueError:
        return False


def _with_images(output: dict[str, Any], images: list[dict[str, Any]]) -> ToolResult:
    if not images:
        return ToolResult(success=True, output=output)
    content: list[Any] = [{"type": "text", "text": json.dumps(output, ensure_ascii=False)}]
    for image in images:
        source = {"type": "base64", "media_type": image["mimeType"], "data": image["data"]}
        content.append({"type": "image", "source": source})
    try:
        return ToolResult(success=True, output=output, content=content)
    except ValidationError:
        return ToolResult(success=True, output={**output, "images_left_out": len(images)})


_ASSUMED_WINDOW = 100_000
_MARGIN_SECONDS = 10.0
_ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}


class ToolServer(Protocol):
    """The server that a tool belongs to."""

    name: str
    settings: McpConfig

    async def connect(self) -> Any: ...

    async def call(self, tool: ServerTool, arguments: dict[str, Any]) -> dict[str, Any]: ...

    async def ask(self, tool: ServerTool) -> None: ...


class ServerTool:
    """One tool of a server: withheld, described in brief, or in full."""

    effect: Effect = "unsafe"
    output_trusted = False

    def __init__(
        self, name: str, server: ToolServer, shelf: ToolRegistry, definition: Definition
    ) -> None:
        self.name = name
        self.server = server
        self.definition = definition
        self.is_approved = self.is_loaded = self.is_gone = False
        self._shelf = shelf

    @property
    def size(self) -> int:
        """The characters of its full description and schema."""
        return len(self.definition.description) + len(json.dumps(self.definition.schema))

    @property
    def description(self) -> str:
        """The description for the model; the server's text only after the user approved it."""
        if not self.is_approved:
            return "Withheld until the user has seen it. Calling it only asks the user."
        if self._is_whole:
            return self.definition.description or f"A tool of the MCP server `{self.server.name}`."
        return f"{self.definition.description.partition(chr(10))[0][:120]} (first: mcp_load)"

    @property
    def input_schema(self) -> dict[str, Any]:
        """The schema, if it is approved and loaded; else one that accepts any object."""
        if self.is_approved and self._is_whole:
            return self.definition.schema
        return _ANYTHING

    @property
    def deadline_seconds(self) -> float:
        """Time for a call and two connections, or for the user to answer."""
        settings = self.server.settings
        if self.is_approved:
            working = settings.call_seconds
        else:
            working = settings.approval_seconds
        return working + 2 * settings.connect_seconds + _MARGIN_SECONDS

    @property
    def _is_whole(self) -> bool:
        return self.is_loaded or not self._shelf.is_full

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Call the tool; failures are returned as results."""
        try:
            if not isinstance(input, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - a model made it
                raise ServerFailure("invalid_input", "The input has to be an object.")
            if not self.is_approved:
                return ToolResult(success=False, output=await self.load(), error=_APPROVED_NOW)
            answer = await self.server.call(self, input)
        except ServerFailure as error:
            return failure(error)
        return to_result(answer, self.server.name, self.server.settings.max_output_chars)

    async def load(self) -> dict[str, Any]:
        """Return the full definition, asking for approval first if it is needed.

        Raises:
            ServerFailure: it is not approved.
        """
        await self.server.ask(self)
        self.is_loaded = True
        await self._shelf.settle()
        return {"tool": self.name, "trusted": False, **self.definition.stored()}

    def check(self, arguments: dict[str, Any]) -> None:
        """Check that the tool may be called with these arguments.

        Raises:
            ServerFailure: it may not.
        """
        if self.is_gone:
            raise ServerFailure("server_error", f"`{self.name}` is no longer offered.")
        if not self.is_approved:
            why = "has changed and was not called. Call it again: then the user is asked about it."
            raise ServerFailure("not_approved", f"`{self.name}` {why}")
        complaint = self.definition.complaint(arguments)
        if complaint is not None:
            if self._is_whole:
                advice = ""
            else:
                advice = " `mcp_load` brings its schema in."
            raise ServerFailure("invalid_input", f"{complaint}.{advice}")


_APPROVED_NOW = {
    "message": "It was approved and described just now, and not called. Call it by its schema.",
    "type": "not_approved",
}


class ToolRegistry:
    """The mounted tools of all servers, and whether they fit the model's window in full."""

    def __init__(self, around: Surroundings) -> None:
        self.tools: dict[str, ServerTool] = {}
        self.is_full = False
        self._around = around

    def of(self, server: ToolServer) -> list[ServerTool]:
        """Return the tools of one server."""
        return [tool for tool in self.tools.values() if tool.server is server]

    async def replace(
        self, server: ToolServer, found: dict[str, Definition], seen: dict[str, Any]
    ) -> dict[str, str]:
        """Mount what a server offers now; return which tools are not offered, and why."""
        refused: dict[str, str] = {}
        standing = {tool.definition.tool: tool for tool in self.of(server)}
        for gone in standing.keys() - found.keys():
            standing[gone].is_gone = True
            await self._take_down(standing[gone])
            refused[gone] = "the server has it no more"
        for definition in found.values():
            tool = standing.get(definition.tool)
            if tool is None:
                name = mounted_name(server.name, definition.tool)
                if self._around.coordinator.get("tools", name) is not None:
                    refused[definition.tool] = f"another tool is called `{name}`"
                    continue
                tool = self.tools[name] = ServerTool(name, server, self, definition)
                await self._around.coordinator.mount("tools", tool, name=name)
            tool.definition = definition
            tool.is_approved = seen.get(definition.tool) == definition.stored()
        await self.settle()
        return refused

    async def settle(self) -> None:
        """Update whether all full descriptions fit their share of the window."""
        providers: dict[str, Any] = self._around.coordinator.get("providers")
        windows = [found.size for each in providers.values() if (found := window_of(each))]
        share = self._around.settings.schema_share
        room = int(min(windows, default=_ASSUMED_WINDOW) * share * CHARS_PER_TOKEN)
        needed = sum(tool.size for tool in self.tools.values() if tool.is_approved)
        if needed > room and not self.is_full:
            line = f"The MCP tools need {needed} characters, more than {room}: shown in brief."
            await self._around.tell(TROUBLE, line, "info", needed=needed, room=room)
        self.is_full = needed > room

    async def clear(self) -> None:
        """Unmount all tools."""
        for tool in list(self.tools.values()):
            await self._take_down(tool)

    async def _take_down(self, tool: ServerTool) -> None:
        coordinator = self._around.coordinator
        del self.tools[tool.name]
        if coordinator.mount_points["tools"].get(tool.name) is tool:
            await coordinator.unmount("tools", tool.name)


class LoadInput(BaseModel):
    """What the model fills in."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    tool: str = Field(min_length=1, max_length=200)


class LoadTool:
    """Loads the full description and schema of one tool of a server."""

    name = "mcp_load"
    description = (
        "Bring in the full description and schema of one MCP tool (named server__tool). Needed for "
        "tools that say so. A server that could not be reached is tried again."
    )
    effect: Effect = "idempotent"
    output_trusted = False
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"tool": {"type": "string", "description": "The name, as server__tool."}},
        "required": ["tool"],
        "additionalProperties": False,
    }

    def __init__(
        self, servers: Mapping[str, ToolServer], shelf: ToolRegistry, around: Surroundings
    ) -> None:
        self._servers = servers
        self._shelf = shelf
        settings = around.settings
        self.deadline_seconds: float | None = (
            settings.approval_seconds + 2 * settings.connect_seconds + _MARGIN_SECONDS
        )

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Return the full definition of the tool."""
        try:
            name = LoadInput.model_validate(input).tool
            server = self._servers.get(name.partition("__")[0])
            if server is None:
                known = ", ".join(self._servers) or "none"
                raise ServerFailure("invalid_input", f"No server has this tool. Servers: {known}.")
            await server.connect()
            tool = self._shelf.tools.get(name)
            if tool is None:
                names = ", ".join(each.name for each in self._shelf.of(server))[:2_000]
                raise ServerFailure("invalid_input", f"No such tool. There are: {names}.")
            return ToolResult(success=True, output=await tool.load())
        except ValidationError as error:
            what = "; ".join(each["msg"] for each in error.errors())
            return failure(ServerFailure("invalid_input", f"Give `tool`, a name: {what}."))
        except ServerFailure as error:
            return failure(error)
