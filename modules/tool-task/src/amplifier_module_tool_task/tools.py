"""The tools task, task_status, task_result and task_cancel, and their capabilities."""

from __future__ import annotations

import asyncio
import copy
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit.children.child import COMPLETED, Child
from amplifier_kit.children.remote import RemoteTask, RemoteTasks
from amplifier_kit.children.tasks import RefusedError, Tasks, unknown_task
from amplifier_kit.tools import problems_in, tool_failure
from amplifier_module_tool_task.agents import Agents

# Time of a call beyond that of its child, to stop the child and report the result.
_MARGIN_SECONDS = 30.0
_WAYS_TO_STOP = 3
_LONGEST_WAIT = 600
_TASK = """Give a piece of work to another agent and get its answer. With `background` you get a \
handle immediately and continue. An agent that runs out of time is stopped; you get what it has."""
_STATUS = "List the tasks that were started in this session, with their state."
_RESULT = "Read the result of a task; if it is still running, wait for it up to `wait_seconds`."
_CANCEL = "Stop a task and get what it has by now. One that has ended stays as it is."


class Input(BaseModel, extra="forbid", hide_input_in_errors=True, defer_build=True):
    """What one tool takes; unknown names are refused."""


class StartTask(Input):
    """The work, and who is to do it."""

    prompt: str = Field(min_length=1, max_length=200_000, description="All that it has to know.")
    agent: str = Field(default="", description="Its name; empty: one like yourself.")
    background: bool = Field(default=False, description="Return a handle immediately.")
    timeout_seconds: float | None = Field(default=None, gt=0, description="To end it sooner.")


class ListTasks(Input):
    """The task to list."""

    handle: str = Field(default="", description="Empty: all tasks.")


class OneTask(Input):
    """The task that is meant."""

    handle: str = Field(description="As `task` gave it.")


class ReadTask(OneTask):
    """The task to read, and how long to wait for it."""

    wait_seconds: float = Field(default=0, ge=0, le=_LONGEST_WAIT, description="For its end.")


@dataclass(frozen=True)
class TaskTool:
    """A tool on the children of a session; returns failures as results."""

    name: str
    effect: Effect
    deadline_seconds: float
    description: str
    asked: type[Input]
    run: Callable[[Any, Any], Awaitable[ToolResult]]
    tasks: Tasks | RemoteTasks
    output_trusted = False
    # Network access of a child is declared by the child's own tools.
    network = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its input."""
        return self.asked.model_json_schema()

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Run the tool once."""
        try:
            return await self.run(self.tasks, self.asked.model_validate(input))
        except ValidationError as error:
            return tool_failure(f"The input does not fit: {problems_in(error)}.")
        except RefusedError as error:
            return tool_failure(str(error))


def tools_for(tasks: Tasks | RemoteTasks, agents: Agents) -> list[TaskTool]:
    """Return the tools; the description of `task` lists the agents."""
    described = [
        f"- {name}: {each.get('description', '')}" for name, each in agents.by_name.items()
    ]
    about = "\n".join([_TASK, *described])
    short = _MARGIN_SECONDS + _WAYS_TO_STOP * tasks.config.grace_seconds
    long = short + tasks.config.timeout_seconds
    wait = short + _LONGEST_WAIT
    if isinstance(tasks, RemoteTasks):
        # A runner finds the child of a repeated call by its key, and starts no second one.
        effect = "idempotent"
        runs = (partial(_start_remote, agents), _list_remote, _read_remote, _cancel_remote)
    else:
        effect = "unsafe"
        runs = (partial(_start, agents), _list, _read, _cancel)
    return [
        TaskTool("task", effect, long, about, StartTask, runs[0], tasks),
        TaskTool("task_status", "pure", short, _STATUS, ListTasks, runs[1], tasks),
        TaskTool("task_result", "pure", wait, _RESULT, ReadTask, runs[2], tasks),
        TaskTool("task_cancel", "idempotent", short, _CANCEL, OneTask, runs[3], tasks),
    ]


async def run_task(
    tasks: Tasks | RemoteTasks, agents: Agents, asked: StartTask, *, key: str
) -> ToolResult:
    """Start a child on behalf of another module; raises RefusedError.

    `key` distinguishes the children that one call starts, so that a runner can find them again.
    """
    if isinstance(tasks, RemoteTasks):
        return await _start_remote(agents, tasks, asked, key)
    return await _start(agents, tasks, asked)


async def _start(agents: Agents, tasks: Tasks, asked: StartTask) -> ToolResult:
    seconds = _seconds_for(tasks, asked)
    order = agents.order(asked.agent, asked.prompt, seconds, background=asked.background)
    child = await tasks.launch(order, agents.refusal(asked.agent))
    if asked.background:
        return _runs(child.handle)
    await child.wait()
    return _result(child)


async def _start_remote(
    agents: Agents, tasks: RemoteTasks, asked: StartTask, key: str = ""
) -> ToolResult:
    seconds = _seconds_for(tasks, asked)
    order = agents.order(asked.agent, asked.prompt, seconds, background=asked.background, key=key)
    task = await tasks.launch(order, agents.refusal(asked.agent))
    if asked.background:
        return _runs(task.handle)
    return _remote_result(await tasks.wait(task.handle, None))


def _seconds_for(tasks: Tasks | RemoteTasks, asked: StartTask) -> float:
    most = tasks.config.timeout_seconds
    return min(asked.timeout_seconds or most, most)


def _runs(handle: str) -> ToolResult:
    return ToolResult(output=f"{handle} runs. Read it with `task_result`.")


async def _list(tasks: Tasks, asked: ListTasks) -> ToolResult:
    if asked.handle:
        children = [_find(tasks, asked.handle)]
    else:
        children = tasks.children.values()
    return ToolResult(output="\n".join(each.line for each in children) or "There are none.")


async def _read(tasks: Tasks, asked: ReadTask) -> ToolResult:
    child = _find(tasks, asked.handle)
    await asyncio.wait({child.watch}, timeout=asked.wait_seconds)
    return _result(child)


async def _cancel(tasks: Tasks, asked: OneTask) -> ToolResult:
    child = _find(tasks, asked.handle)
    await child.stop("cancelled")
    # Cancelling succeeded, even though the child did not complete.
    return ToolResult(output=_result(child).output)


async def _list_remote(tasks: RemoteTasks, asked: ListTasks) -> ToolResult:
    if asked.handle:
        found = [await tasks.find(asked.handle)]
    else:
        found = await tasks.all()
    return ToolResult(output="\n".join(each.line for each in found) or "There are none.")


async def _read_remote(tasks: RemoteTasks, asked: ReadTask) -> ToolResult:
    return _remote_result(await tasks.wait(asked.handle, asked.wait_seconds))


async def _cancel_remote(tasks: RemoteTasks, asked: OneTask) -> ToolResult:
    await tasks.stop(asked.handle)
    return ToolResult(output=_remote_result(await tasks.wait(asked.handle, None)).output)


def _remote_result(task: RemoteTask) -> ToolResult:
    if task.stop_reason is None:
        return ToolResult(output=f"Still running. {task.line}")
    return _as_result(task.stop_reason, task.text(), task.handle)


def _find(tasks: Tasks, handle: str) -> Child:
    if handle not in tasks.children:
        raise unknown_task(tasks.children)
    return tasks.children[handle]


def _result(child: Child) -> ToolResult:
    if child.outcome is None:
        return ToolResult(output=f"Still running. {child.line}")
    child.is_read = True
    reason, text, *_ = child.outcome
    return _as_result(reason, text, child.handle)


def _as_result(reason: str, text: str, handle: str) -> ToolResult:
    if reason == COMPLETED:
        return ToolResult(output=text)
    return tool_failure(text, stop_reason=reason, handle=handle)


class IncompleteError(RuntimeError):
    """A spawned agent did not complete its task; the message has its partial result."""


class AgentCapabilities:
    """The capabilities by which other modules of the session use its agents."""

    def __init__(self, tasks: Tasks | RemoteTasks, agents: Agents) -> None:
        self._tasks = tasks
        self._agents = agents

    def offer(self, coordinator: ModuleCoordinator) -> None:
        """Register the capabilities."""
        coordinator.register_capability("agents.list", self.list_agents)
        coordinator.register_capability("agents.get", self.get_agent)
        coordinator.register_capability("agents.spawn", self.spawn_agent)

    async def list_agents(self) -> list[str]:
        """Return the names of the agents."""
        return list(self._agents.by_name)

    async def get_agent(self, agent_id: str) -> dict[str, Any]:
        """Return a copy of an agent's configuration; empty for an unknown agent."""
        return copy.deepcopy(self._agents.by_name.get(agent_id, {}))

    async def spawn_agent(self, agent_id: str, task: str | Mapping[str, Any]) -> str:
        """Run a task with an agent, under the limits of the tool `task`, and return its answer.

        Raises:
            ValueError: there is no such agent, or the task is empty or too long.
            TypeError: the task is not a text.
            RefusedError: the limits or the budget allow no further child; a RuntimeError.
            IncompleteError: the agent was stopped, or failed; a RuntimeError.
        """
        if not isinstance(task, str):
            raise TypeError(f"agents.spawn takes the task as a text, not as {type(task).__name__}")
        # For the tool, no name means a child like its parent; here an agent has to be named.
        if not agent_id or self._agents.refusal(agent_id):
            known = ", ".join(self._agents.by_name) or "none"
            raise ValueError(f"Unknown agent: {agent_id}. Known: {known}.")
        asked = StartTask(prompt=task, agent=agent_id)
        result = await run_task(self._tasks, self._agents, asked, key=_key_of(agent_id, task))
        if not result.success:
            raise IncompleteError(str(result.output))
        return str(result.output)


def _key_of(agent_id: str, task: str) -> str:
    """Return a key for this order that is the same in every run of the calling code."""
    return hashlib.sha256(f"{agent_id}\n{task}".encode()).hexdigest()[:16]
