"""The capabilities `agents.list`, `agents.get`, `agents.spawn`: agents for other modules."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.children.remote import RemoteTasks
from amplifier_kit.children.tasks import Tasks, unknown_agent
from amplifier_module_tool_task.tools import StartTask, run_task


class IncompleteError(RuntimeError):
    """A spawned agent did not complete its task; the message has what it said and found."""


class AgentCapabilities:
    """Offers the agents of one session to its other modules."""

    def __init__(self, tasks: Tasks | RemoteTasks) -> None:
        self._tasks = tasks

    def offer(self, coordinator: ModuleCoordinator) -> None:
        """Register the capabilities."""
        coordinator.register_capability("agents.list", self.list_agents)
        coordinator.register_capability("agents.get", self.get_agent)
        coordinator.register_capability("agents.spawn", self.spawn_agent)

    async def list_agents(self) -> list[str]:
        """Return the names of the agents."""
        return list(self._tasks.agents)

    async def get_agent(self, agent_id: str) -> dict[str, Any]:
        """Return a copy of an agent's configuration; an unknown agent has an empty one."""
        return copy.deepcopy(self._tasks.agents.get(agent_id, {}))

    async def spawn_agent(self, agent_id: str, task: str | Mapping[str, Any]) -> str:
        """Have an agent do a task, under the limits of the tool `task`, and return its answer.

        Raises:
            ValueError: there is no such agent, or the task is empty or too long.
            TypeError: the task is not a text.
            RefusedError: the limits or the budget allow no further child; a RuntimeError.
            IncompleteError: the agent was stopped, or failed; a RuntimeError.
        """
        if not isinstance(task, str):
            raise TypeError(f"agents.spawn takes the task as a text, not as {type(task).__name__}")
        # The tool takes no name for a child like its parent; here an agent has to be named.
        if not agent_id or unknown_agent(self._tasks.agents, agent_id):
            known = ", ".join(self._tasks.agents) or "none"
            raise ValueError(f"Unknown agent: {agent_id}. Known: {known}.")
        asked = StartTask(prompt=task, agent=agent_id)
        result = await run_task(self._tasks, asked, key=_key_of(agent_id, task))
        if not result.success:
            raise IncompleteError(str(result.output))
        return str(result.output)


def _key_of(agent_id: str, task: str) -> str:
    """Return a name for this order that is the same in every run of the code that gives it."""
    return hashlib.sha256(f"{agent_id}\n{task}".encode()).hexdigest()[:16]
