"""A tool that delegates as published ones do, and sessions that have it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from amplifier_core.models import ToolResult
from amplifier_foundation.store import SessionStore
from amplifier_foundation.tracing import generate_sub_session_id

ECHO = {"module": "provider-mock", "config": {"mode": "echo"}}


class Delegate:
    """Asks for children with the keywords that published tools use."""

    name = "delegate"
    description = "Give work to an agent."
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, coordinator: Any) -> None:
        self.coordinator = coordinator

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Spawn, or with a `session_id` resume; an error is what the model reads."""
        given = dict(input)
        try:
            if "session_id" in given:
                resume = self.coordinator.get_capability("session.resume")
                result = await resume(
                    sub_session_id=given["session_id"], instruction=given["instruction"]
                )
            else:
                result = await self._spawn(given)
        except (ValueError, RuntimeError, FileNotFoundError) as error:
            message = f"{type(error).__name__}: {error}"
            return ToolResult(success=False, error={"message": message})
        return ToolResult(output=result)

    async def _spawn(self, given: dict[str, Any]) -> dict[str, Any]:
        agent = given.pop("agent", "self")
        spawn = self.coordinator.get_capability("session.spawn")
        asked = {
            "sub_session_id": generate_sub_session_id(agent, self.coordinator.session_id),
            "tool_inheritance": {"exclude_tools": ["tool-delegate"]},
            "hook_inheritance": {},
            "orchestrator_config": None,
            "provider_preferences": None,
            "self_delegation_depth": 0,
            "session_metadata": {"agent_name": agent},
        }
        return await spawn(
            agent_name=agent,
            instruction=given.pop("instruction", "Hello."),
            parent_session=self.coordinator.session,
            agent_configs=self.coordinator.config.get("agents", {}),
            **{**asked, **given},
        )


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    """Mount the tool, as its module does."""
    await coordinator.mount("tools", Delegate(coordinator))


@pytest.fixture(autouse=True)
def _delegate(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("amplifier_module_tool_delegate", "amplifier_module_tool_hand"):
        module = ModuleType(name)
        module.__dict__["mount"] = mount
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def store(home: Path) -> SessionStore:
    """The store of a user."""
    return SessionStore(home)


Plan = Callable[..., dict[str, Any]]


@pytest.fixture
def plan() -> Plan:
    """Make the plan of a session that can delegate, and that echoes."""

    def make(**sections: Any) -> dict[str, Any]:
        return {
            "session": {"orchestrator": {"module": "loop-basic"}, "context": "context-simple"},
            "providers": [ECHO],
            "tools": [{"module": "tool-delegate"}],
            **sections,
        }

    return make
