"""What the tests of hooks-budget share: a vendor that sends bills, and sessions that call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Any, cast

import pytest

from amplifier_core import AmplifierSession, ChatRequest, ChatResponse, Message, ToolCall
from amplifier_core.llm_errors import StreamError
from amplifier_core.message_models import TextBlock, ToolCallBlock, Usage
from amplifier_core.models import ModelInfo, ProviderInfo, ToolResult
from amplifier_core.testing import EventRecorder

PRICES = {"vendor": {"input": 3, "output": 15}}
_HEARD = (
    "budget:warning",
    "budget:exhausted",
    "budget:usage_doubted",
    "budget:overrun",
    "budget:price_unknown",
    "budget:lease_refused",
)


def dollars(input_tokens: int, output_tokens: int) -> Decimal:
    """Return what the vendor takes."""
    return (3 * Decimal(input_tokens) + 15 * Decimal(output_tokens)) / 1_000_000


class Vendor:
    """A provider whose every call costs as much as it can, and what it has billed by now.

    `answer` says what comes back: a text, a list of tools to call, or an error to raise; `report`
    turns the true usage into the one that is told. Calls are held back until `gate` is set, and
    then take `pace` rounds of the event loop. One that `bills_only_what_is_seen` writes all tokens
    that it bills, four characters each.
    """

    name = "vendor"

    def __init__(self, answer: Any = "Done.") -> None:
        self.bills_only_what_is_seen = False
        self.max_output_tokens = 4_096
        self.pace = 1
        self.answer: Callable[[ChatRequest], Any] = lambda _: answer
        self.report: Callable[[Usage], Usage | None] = lambda usage: usage
        self.billed = Decimal(0)
        self.requests: list[ChatRequest] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def get_info(self) -> ProviderInfo:
        limits = {"max_output_tokens": self.max_output_tokens, "context_window": 200_000}
        defaults = {"model": "big", **limits}
        return ProviderInfo(id=self.name, display_name="Vendor", defaults=defaults)

    async def list_models(self) -> list[ModelInfo]:
        return []

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or ())

    def true_usage(self, request: ChatRequest) -> Usage:
        """Return the most that a request can use."""
        asked = len(request.model_dump_json(exclude={"metadata"}).encode()) + 1_000
        if self.bills_only_what_is_seen:
            asked = sum(len(_text(message)) for message in request.messages) // 4
        given = request.max_output_tokens or self.max_output_tokens
        return Usage(input_tokens=asked, output_tokens=given, total_tokens=asked + given)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.requests.append(request)
        await self.gate.wait()
        for _ in range(self.pace):
            await asyncio.sleep(0)
        answer = self.answer(request)
        if isinstance(answer, BaseException):
            if isinstance(answer, StreamError):
                self._bill(self.true_usage(request))
            raise answer
        usage = self.true_usage(request)
        self._bill(usage)
        names = cast("list[str]", answer) if type(answer) is list and request.tools else []
        calls = [ToolCall(id=f"{len(self.requests)}-{n}", name=n, arguments={}) for n in names]
        words = answer if isinstance(answer, str) else "Here is what I have."
        if self.bills_only_what_is_seen:
            words += "." * (4 * usage.output_tokens - len(words))
        text = [TextBlock(text=words)]
        blocks = [ToolCallBlock(id=c.id, name=c.name, input={}) for c in calls]
        return ChatResponse(
            content=[*text, *blocks], tool_calls=calls or None, usage=self.report(usage)
        )

    def _bill(self, usage: Usage) -> None:
        self.billed += dollars(usage.input_tokens, usage.output_tokens)


def _text(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(block.text for block in message.content if block.type == "text")


class Dig:
    """A tool that is never done."""

    name = "dig"
    description = "Dig deeper."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(output="There is more below.")


class Screen:
    """A display that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source} {level}: {message}")


class Harness:
    """A session under a budget, with everything that can be seen of it."""

    def __init__(self, session: AmplifierSession, vendor: Vendor, screen: Screen) -> None:
        self.session = session
        self.coordinator = session.coordinator
        self.vendor = vendor
        self.screen = screen
        self.recorder = EventRecorder()
        for event in _HEARD:
            self.coordinator.hooks.register(event, self.recorder.record)

    @property
    def provider(self) -> Any:
        """The vendor as the loop sees it."""
        return self.coordinator.get("providers", "vendor")

    @property
    def ledger(self) -> Any:
        """The tree's ledger."""
        return self.coordinator.get_capability("budget.ledger")

    @property
    def spent(self) -> Decimal:
        """What the ledger says that the tree has spent."""
        return self.ledger.root.used.usd

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the data of every such event."""
        return [data for _, data in self.recorder.get_events(event)]

    async def child(
        self,
        session_id: str,
        overlay: dict[str, Any] | None = None,
        *,
        vendor: Vendor | None = None,
    ) -> Harness:
        """Fork a session that calls the same vendor, or one of its own."""
        session = self.session.fork(overlay, session_id=session_id)
        return await furnish(session, vendor or self.vendor, self.screen)


async def furnish(session: AmplifierSession, vendor: Vendor, screen: Screen) -> Harness:
    """Initialize a session and give it the vendor and a tool."""
    await session.initialize()
    await session.coordinator.mount("providers", vendor)
    await session.coordinator.mount("tools", Dig())
    return Harness(session, vendor, screen)


Build = Callable[..., Awaitable[Harness]]


def plan(**budget: Any) -> dict[str, Any]:
    """Return a mount plan with a budget."""
    loop = {"module": "loop-basic", "config": {"stuck_after": 0}}
    hook = {"module": "hooks-budget", "config": {"prices": PRICES, **budget}, "required": True}
    return {"session": {"orchestrator": loop, "context": "context-simple"}, "hooks": [hook]}


@pytest.fixture
async def build() -> AsyncGenerator[Build]:
    """Build a harness from the keys of a budget, and a vendor's answer."""
    async with AsyncExitStack() as exits:

        async def make(
            answer: Any = "Done.", *, state: dict[str, Any] | None = None, **budget: Any
        ) -> Harness:
            screen = Screen()
            session = AmplifierSession(plan(**budget), session_id="root", display_system=screen)
            if state is not None:
                session.coordinator.session_state = state
            harness = await furnish(session, Vendor(answer), screen)
            exits.push_async_callback(session.cleanup)
            return harness

        yield make
