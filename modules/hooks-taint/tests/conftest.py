"""What the tests of hooks-taint share: a model that obeys whatever it reads, and tools that act."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.models import ToolResult
from amplifier_core.testing import EventRecorder

_HEARD = ("taint:flagged", "taint:blind", "policy:violation", "hook:failed")


class Page:
    """A tool that reads what anybody could have written."""

    name = "fetch"
    description = "Read a page."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}
    effect = "pure"
    deadline_seconds = None
    output_trusted = False

    def __init__(self, output: Any) -> None:
        self.output = output

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        if isinstance(self.output, BaseException):
            raise self.output
        return ToolResult(output=self.output)


class Actor:
    """A tool that acts, and keeps what it was run with."""

    description = "Act."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}
    deadline_seconds = None
    output_trusted = True

    def __init__(self, name: str, effect: str, *, network: bool = False) -> None:
        self.name = name
        self.effect = effect
        self.network = network
        self.ran: list[dict[str, Any]] = []

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.ran.append(input)
        return ToolResult(output="done")


class Person:
    """An approval system that keeps the questions and gives one answer."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.questions: list[str] = []

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> str:
        self.questions.append(prompt)
        return self.answer


class Screen:
    """A display that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source} {level}: {message}")


class Harness:
    """A session under guard, and everything that can be seen of it."""

    def __init__(self, session: AmplifierSession, page: Any, screen: Screen) -> None:
        self.session = session
        self.coordinator = session.coordinator
        self.page = page
        self.screen = screen
        self.recorder = EventRecorder()
        self.tools: dict[str, Any] = {}

    async def furnish(self) -> Harness:
        """Initialize the session and give it tools that read, act and send."""
        await self.session.initialize()
        tools = [
            Page(self.page),
            Actor("bash", "unsafe"),
            Actor("send", "idempotent", network=True),
            Actor("note", "idempotent"),
        ]
        for tool in tools:
            self.tools[tool.name] = tool
            await self.coordinator.mount("tools", tool)
        for event in _HEARD:
            self.coordinator.hooks.register(event, self.recorder.record)
        return self

    def ran(self, tool: str) -> list[dict[str, Any]]:
        """Return what a tool was run with."""
        return self.tools[tool].ran

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the data of every such event."""
        return [data for _, data in self.recorder.get_events(event)]

    async def results(self) -> list[str]:
        """Return what the model was told about its calls."""
        messages = await self.coordinator.get_mounted("context").get_messages()
        return [each["content"] for each in messages if each["role"] == "tool"]

    async def run(self, prompt: str = "Summarise the page.") -> list[str]:
        """Run one turn and return what the model was told."""
        async with asyncio.timeout(120):
            await self.session.execute(prompt)
        return await self.results()

    async def fork(self, session_id: str = "child", **overlay: Any) -> Harness:
        """Return the harness of a child session."""
        session = self.session.fork(overlay or None, session_id=session_id)
        return await Harness(session, self.page, self.screen).furnish()


Build = Callable[..., Awaitable[Harness]]


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a scripted call."""
    return {"name": tool, "arguments": arguments}


def plan(
    calls: list[dict[str, Any]], config: dict[str, Any], others: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a mount plan in which the model makes these calls, one by one."""
    script = [*({"tool_calls": [each]} for each in calls), "Done."]
    loop = {"module": "loop-basic", "config": {"stuck_after": 0}}
    provider = {"module": "provider-mock", "config": {"script": script, "after_script": "repeat"}}
    hook = {"module": "hooks-taint", "config": config, "required": True}
    return {
        "session": {"orchestrator": loop, "context": "context-simple"},
        "providers": [provider],
        "hooks": [hook, *others],
    }


@pytest.fixture
async def build() -> AsyncGenerator[Build]:
    """Build a harness from what the page says and the calls that the model makes."""
    async with AsyncExitStack() as exits:

        async def make(
            page: Any,
            *calls: dict[str, Any],
            person: Person | None = None,
            state: dict[str, Any] | None = None,
            resumed: bool = False,
            others: list[dict[str, Any]] | None = None,
            **config: Any,
        ) -> Harness:
            screen = Screen()
            session = AmplifierSession(
                plan(list(calls), config, others or []),
                session_id="root",
                approval_system=person,
                display_system=screen,
                is_resumed=resumed,
            )
            if state is not None:
                session.coordinator.session_state = state
            exits.push_async_callback(session.cleanup)
            return await Harness(session, page, screen).furnish()

        yield make


@pytest.fixture
def calling() -> Callable[..., dict[str, Any]]:
    """Make a scripted call."""
    return call


@pytest.fixture
def person() -> Callable[[str], Person]:
    """Make somebody who gives this answer."""
    return Person
