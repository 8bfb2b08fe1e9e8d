"""A line under test: a provider, mounted for real, at one end, a scripted server at the other."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from amplifier_core import events as names
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, TextBlock, ToolSpec
from amplifier_core.models import HookResult
from amplifier_core.testing import MockCoordinator
from amplifier_kit.calls.model_calls import OWN_EVENTS
from wire.server import WireServer
from wire.vendor import Vendor

# Generous: the first call waits for the import of an SDK, on a machine that may be busy.
LIMIT_SECONDS = 120
QUICK: dict[str, Any] = {
    "max_retries": 2,
    "min_retry_delay_seconds": 0.01,
    "max_retry_delay_seconds": 0.05,
    "idle_timeout_seconds": LIMIT_SECONDS,
}
RECORDED = (
    names.LLM_REQUEST,
    names.LLM_RESPONSE,
    names.PROVIDER_RETRY,
    names.PROVIDER_TOOL_SEQUENCE_REPAIRED,
    *OWN_EVENTS,
)
READ_FILE = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
LIST_FILES = ToolSpec(
    name="list_files", description="List files.", parameters={"type": "object", "properties": {}}
)
# One pixel, as a PNG.
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)

Spoken = str | dict[str, Any] | Message


class Event(NamedTuple):
    """An event as a hook received it."""

    name: str
    data: dict[str, Any]


class Display:
    """A display system that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        """Keep a line."""
        self.lines.append(message)


class Line:
    """One provider, its coordinator, and the server it talks to."""

    def __init__(self, server: WireServer) -> None:
        self.server = server
        self.vendor: Vendor = server.vendor
        self.coordinator = MockCoordinator()
        self.display = Display()
        self.coordinator.display_system = self.display
        self.events: list[Event] = []
        self.heard = asyncio.Condition()
        self.provider: Any = None
        self.cleanup: Callable[[], Awaitable[None]] | None = None
        for name in RECORDED:
            self.coordinator.hooks.register(name, self._record, name=f"record {name}")

    async def _record(self, event: str, data: dict[str, Any]) -> HookResult:
        async with self.heard:
            self.events.append(Event(event, dict(data)))
            self.heard.notify_all()
        return HookResult()

    async def mount(self, config: dict[str, Any]) -> None:
        """Mount the provider as the loader does: by the `mount` of its module."""
        self.cleanup = await module_of(self.vendor).mount(self.coordinator, config)
        mounted: dict[str, Any] = self.coordinator.mount_points["providers"]
        self.provider = next(iter(mounted.values()), None)

    async def close(self) -> None:
        """Clean up what was mounted."""
        if self.cleanup is not None:
            cleanup, self.cleanup = self.cleanup, None
            await cleanup()

    async def ask(self, *said: Spoken, **fields: Any) -> ChatResponse:
        """Complete one request; a text is said by the user, keywords are fields of the request."""
        async with asyncio.timeout(LIMIT_SECONDS):
            return await self.provider.complete(request(*said, **fields))

    async def wait_for(self, event: str) -> None:
        """Wait until an event of this name was heard."""
        async with asyncio.timeout(LIMIT_SECONDS), self.heard:
            await self.heard.wait_for(lambda: bool(self.of(event)))

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the data of the events of one name."""
        return [each.data for each in self.events if each.name == event]

    @property
    def sent(self) -> dict[str, Any]:
        """The body of the last request that reached the server."""
        return self.server.requests[-1].body


def module_of(vendor: Vendor) -> Any:
    """Return the module under test."""
    return importlib.import_module(f"amplifier_module_{vendor.module_id.replace('-', '_')}")


def request(*said: Spoken, **fields: Any) -> ChatRequest:
    """Return a request; a text is said by the user."""
    return ChatRequest(messages=[_message(each) for each in said], **fields)


def _message(spoken: Spoken) -> Message:
    if isinstance(spoken, str):
        return Message(role="user", content=spoken)
    return spoken if isinstance(spoken, Message) else Message(**spoken)


def text_of(response: ChatResponse) -> str:
    """Return the text of a response."""
    return "".join(block.text for block in response.content if isinstance(block, TextBlock))


def stored(response: ChatResponse) -> Message:
    """Return an answer as it comes back from a session's storage, in the form loops keep it in."""
    calls = [
        {"id": call.id, "tool": call.name, "arguments": call.arguments}
        for call in response.tool_calls or ()
    ]
    kept = {
        "role": "assistant",
        "content": [block.model_dump() for block in response.content],
        "tool_calls": calls,
        "metadata": response.metadata,
    }
    return Message(**json.loads(json.dumps(kept)))


def results_for(response: ChatResponse, output: str = "done") -> list[Message]:
    """Return a result for each call of an answer, as loops store them."""
    return [
        Message(role="tool", tool_call_id=call.id, name=call.name, content=output)
        for call in response.tool_calls or ()
    ]


def calling(*ids: str, name: str = "read_file") -> dict[str, Any]:
    """Return a stored answer that made these calls."""
    blocks = [
        {"type": "tool_call", "id": each, "name": name, "input": {"path": "a"}} for each in ids
    ]
    return {"role": "assistant", "content": blocks}
