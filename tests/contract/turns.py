"""One turn of the basic loop, with doubles around it and all its events heard."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core import HookRegistry, ToolCall
from amplifier_core.events import ALL_EVENTS
from amplifier_core.testing import MockContextManager, MockCoordinator
from amplifier_module_loops.loop_basic import mount
from contract.doubles import Listener
from contract.installer import ScriptedProvider


class Turn:
    """The basic loop with everything a turn needs, and all events heard."""

    def __init__(self, loop: Any, *answers: Any, tools: Any = ()) -> None:
        self.loop = loop
        self.provider = ScriptedProvider(*answers)
        self.context = MockContextManager()
        self.tools: dict[str, Any] = {tool.name: tool for tool in tools}
        self.coordinator: Any = MockCoordinator()
        self.coordinator.mount_points["context"] = self.context
        self.hooks: HookRegistry = self.coordinator.hooks
        self.heard = Listener()
        for event in ALL_EVENTS:
            self.hooks.register(event, self.heard, 100)

    async def run(self, prompt: str = "hi") -> str:
        """Run one turn."""
        async with asyncio.timeout(120):
            return await self.loop.execute(
                prompt=prompt,
                context=self.context,
                providers={"test": self.provider},
                tools=self.tools,
                hooks=self.hooks,
                coordinator=self.coordinator,
            )

    def told(self, event: str) -> list[dict[str, Any]]:
        """Give the data of every event of this name."""
        return [data for name, data in self.heard.calls if name == event]

    @property
    def results(self) -> list[Any]:
        """The contents of the stored tool results."""
        return [each["content"] for each in self.context.messages if each["role"] == "tool"]


async def loop(**config: Any) -> Any:
    """Mount the basic loop as a session would."""
    coordinator = MockCoordinator()
    await mount(coordinator, config)
    return coordinator.get("orchestrator")


def calls(*names: str) -> list[ToolCall]:
    """Make one tool call per name, numbered from 1."""
    return [
        ToolCall(id=f"call_{number}", name=name, arguments={"n": number})
        for number, name in enumerate(names, start=1)
    ]
