"""What the tests of tool-task share: a root session, and modules planted for its children."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.models import ToolResult
from amplifier_core.testing import EventRecorder

ANNOUNCED = ("started", "progress", "finished", "failed", "abandoned", "refused")
Plant = Callable[[str, Callable[..., Awaitable[Any]]], None]


def asks(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the step of a script that calls a tool."""
    return {"text": f"I call {tool}.", "tool_calls": [{"name": tool, "arguments": arguments}]}


def says(*script: Any, **agent: Any) -> dict[str, Any]:
    """Return an agent whose model plays `script`."""
    config = {"script": list(script), "after_script": "repeat"}
    return {"providers": [{"module": "provider-mock", "config": config}], **agent}


class Screen:
    """What a person sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.lines.append(f"{source} {level}: {message}")


class Root:
    """A root session with the module, and everything that can be seen of it."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.screen = Screen()
        self.session = AmplifierSession(plan, session_id="root", display_system=self.screen)
        self.coordinator = self.session.coordinator
        self.recorder = EventRecorder()
        for event in ANNOUNCED:
            self.coordinator.hooks.register(f"task:{event}", self.recorder.record)

    async def call(self, tool: str, /, **given: Any) -> ToolResult:
        """Call a tool as a loop does."""
        async with asyncio.timeout(120):
            return await self.coordinator.get_mounted("tools")[tool].execute(given)

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the data of every such event."""
        return [data for _, data in self.recorder.get_events(f"task:{event}")]


Build = Callable[..., Awaitable[Root]]


@pytest.fixture
async def build() -> AsyncGenerator[Build]:
    """Build a root session from the configuration of the module and a plan's other sections."""
    async with AsyncExitStack() as exits:

        async def make(config: dict[str, Any] | None = None, **sections: Any) -> Root:
            settings = {"grace_seconds": 0.1, **(config or {})}
            loop = {"module": "loop-basic", "config": {"stuck_after": 0}}
            tools = [{"module": "tool-task", "config": settings}, *sections.pop("tools", ())]
            root = Root(
                {
                    "session": {"orchestrator": loop, "context": "context-simple"},
                    **says("Done."),
                    "tools": tools,
                    **sections,
                }
            )
            await exits.enter_async_context(root.session)
            return root

        yield make


@pytest.fixture(name="asks")
def asks_fixture() -> Any:
    """Make the step of a script that calls a tool."""
    return asks


@pytest.fixture(name="says")
def says_fixture() -> Any:
    """Make an agent whose model plays a script."""
    return says


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Make a module importable under its id."""

    def add(module_id: str, mount: Callable[..., Awaitable[Any]]) -> None:
        module = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        module.__dict__["mount"] = mount
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return add


class Deaf:
    """A loop that does not stop when it is told to; `release` lets it go on to a tool call."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.answers: asyncio.Queue[Any] = asyncio.Queue()

    async def mount(self, coordinator: Any, config: dict[str, Any]) -> None:
        """Mount it as a module does."""
        await coordinator.mount("orchestrator", self)

    async def execute(self, *, hooks: Any, **_: Any) -> str:
        """Wait in spite of everything, then announce two calls."""
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                continue
        for data in ({"tool_name": "probe"}, "no dict"):
            self.answers.put_nowait(await hooks.emit("tool:pre", data))
        return "late"


@pytest.fixture
def deaf(plant: Plant) -> Deaf:
    """The deaf loop, as the module `loop-deaf`."""
    loop = Deaf()
    plant("loop-deaf", loop.mount)
    return loop


class Probe:
    """A tool that counts its calls and finds 42."""

    name = "probe"
    description = "Look deeper."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    def __init__(self) -> None:
        self.calls = 0

    async def mount(self, coordinator: Any, config: dict[str, Any]) -> None:
        """Mount it as a module does."""
        await coordinator.mount("tools", self)

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Count the call."""
        self.calls += 1
        return ToolResult(output="The probe found 42.")


@pytest.fixture
def probe(plant: Plant) -> Probe:
    """The probe, as the module `tool-probe`."""
    tool = Probe()
    plant("tool-probe", tool.mount)
    return tool
