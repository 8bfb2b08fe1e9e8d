"""What the tests of hooks-approval share: sessions whose scripted model calls tools that record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.models import ToolResult
from amplifier_core.testing import EventRecorder

_HEARD = ("approval:required", "approval:granted", "approval:denied", "hook:failed")


class Recorder:
    """A tool that keeps what it was run with."""

    description = "Records."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}
    deadline_seconds = None
    output_trusted = True

    def __init__(self, name: str, effect: str) -> None:
        self.name = name
        self.effect = effect
        self.ran: list[dict[str, Any]] = []

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.ran.append(input)
        return ToolResult(output="done")


class Person:
    """An approval system: keeps the questions, and answers once `gate` is set."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []
        self.options: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: str
    ) -> Any:
        self.questions.append(prompt)
        self.options.append(options)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await self.gate.wait()
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Screen:
    """A display that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source} {level}: {message}")


class Harness:
    """A session under guard, and everything that can be seen of it."""

    def __init__(self, session: AmplifierSession, screen: Screen) -> None:
        self.session = session
        self.coordinator = session.coordinator
        self.screen = screen
        self.recorder = EventRecorder()
        self.tools: dict[str, Recorder] = {}

    async def furnish(self) -> Harness:
        """Initialize the session and give it one tool of each kind."""
        await self.session.initialize()
        kinds = {"bash": "unsafe", "write": "idempotent", "read": "pure"}
        for name, effect in kinds.items():
            self.tools[name] = Recorder(name, effect)
            await self.coordinator.mount("tools", self.tools[name])
        for event in _HEARD:
            self.coordinator.hooks.register(event, self.recorder.record)
        return self

    @property
    def broker(self) -> Any:
        """The capability that apps use."""
        return self.coordinator.get_capability("approval.grants")

    def ran(self, tool: str = "bash") -> list[dict[str, Any]]:
        """Return what a tool was run with."""
        return self.tools[tool].ran

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the data of every such event."""
        return [data for _, data in self.recorder.get_events(event)]

    async def results(self) -> list[str]:
        """Return what the model was told about its calls."""
        messages = await self.coordinator.get_mounted("context").get_messages()
        return [each["content"] for each in messages if each["role"] == "tool"]

    async def run(self) -> list[str]:
        """Run one turn and return what the model was told."""
        async with asyncio.timeout(120):
            await self.session.execute("go")
        return await self.results()


Build = Callable[..., Awaitable[Harness]]


def call(tool: str, call_id: str | None = None, **arguments: Any) -> dict[str, Any]:
    """Return a scripted call."""
    named = {} if call_id is None else {"id": call_id}
    return {"name": tool, "arguments": arguments, **named}


def plan(steps: list[list[dict[str, Any]]], config: dict[str, Any]) -> dict[str, Any]:
    """Return a mount plan in which the model makes these calls, step by step."""
    script = [*({"tool_calls": calls} for calls in steps), "Done."]
    loop = {"module": "loop-basic", "config": {"stuck_after": 0}}
    provider = {"module": "provider-mock", "config": {"script": script, "after_script": "repeat"}}
    hook = {"module": "hooks-approval", "config": config, "required": True}
    return {
        "session": {"orchestrator": loop, "context": "context-simple"},
        "providers": [provider],
        "hooks": [hook],
    }


@pytest.fixture
def grants_file(tmp_path: Path) -> Path:
    """Where the grants of the test's person are kept."""
    return tmp_path / "private" / "grants.json"


@pytest.fixture
async def build(grants_file: Path) -> AsyncGenerator[Build]:
    """Build a harness from the model's calls and the keys of the configuration."""
    async with AsyncExitStack() as exits:

        async def make(
            *steps: list[dict[str, Any]],
            person: Person | None = None,
            state: dict[str, Any] | None = None,
            project: str | None = None,
            **config: Any,
        ) -> Harness:
            screen = Screen()
            config = {"grants_file": str(grants_file), "batch_seconds": 0, **config}
            session = AmplifierSession(
                plan(list(steps), config),
                session_id="root",
                approval_system=person,
                display_system=screen,
            )
            if state is not None:
                session.coordinator.session_state = state
            if project is not None:
                session.coordinator.register_capability("session.working_dir", project)
            exits.push_async_callback(session.cleanup)
            return await Harness(session, screen).furnish()

        yield make


@pytest.fixture
def person() -> Callable[..., Person]:
    """Make somebody who gives these answers, the last one for ever."""
    return Person


@pytest.fixture
def calling() -> Callable[..., dict[str, Any]]:
    """Make a scripted call."""
    return call
