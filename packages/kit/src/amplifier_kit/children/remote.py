"""Children that the capability `task.runner` runs elsewhere, instead of forks in this process."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult
from amplifier_kit.children.child import (
    COMPLETED,
    FAILED,
    FINISHED,
    LONGEST_RESULT,
    NAME,
    REFUSED,
    STARTED,
    partial_work,
)
from amplifier_kit.children.config import ChildrenConfig
from amplifier_kit.children.orders import ChildOrder
from amplifier_kit.children.tasks import (
    RefusedError,
    depth_of,
    news_of,
    too_deep,
    unknown_task,
)
from amplifier_kit.notices import show
from amplifier_kit.texts import shorten

RUNNER = "task.runner"


class RemoteTask(BaseModel, frozen=True):
    """A child as its runner knows it; without a `stop_reason` it has not ended.

    `child_session_id` is for the events; `messages` is what it has so far.
    """

    handle: str
    agent: str
    background: bool
    child_session_id: str
    seconds: float
    stop_reason: str | None = None
    answer: str | None = None
    error: str | None = None
    messages: list[dict[str, Any]] = []

    @property
    def line(self) -> str:
        """Its status in one line."""
        who = f"{self.handle} {self.agent}".strip()
        return f"{who}: {self.stop_reason or 'running'}, {self.seconds:.1f} s"

    def text(self) -> str:
        """Return the answer, or the partial work of a child that is incomplete."""
        if self.stop_reason == COMPLETED:
            return shorten(self.answer or "", LONGEST_RESULT)
        cause = f" ({self.error})" if self.error else ""
        head = f"[{self.handle} is incomplete: {self.stop_reason}{cause}]\n"
        return shorten(head + partial_work(self.messages), LONGEST_RESULT)


class TaskRunner(Protocol):
    """The capability `task.runner`: plain data in, plain data out (the fields of RemoteTask).

    Repeating a call returns the child of the first one. `limits` bind the calling session; None
    if it is the root.
    """

    limits: dict[str, int] | None

    async def start(self, order: dict[str, Any]) -> dict[str, Any] | str:
        """Start a child and return it, or the reason for a refusal."""
        ...

    async def tasks(self) -> list[dict[str, Any]]:
        """Return the children of this session."""
        ...

    async def wait(self, handle: str, seconds: float | None) -> dict[str, Any]:
        """Return a child when it has ended, or after `seconds`."""
        ...

    async def stop(self, handle: str) -> None:
        """Stop a child."""
        ...

    async def news(self) -> list[dict[str, Any]]:
        """Return ended children that were not reported yet; called for every request."""
        ...


class RemoteTasks:
    """The children of one session, wherever they run; they do not end with this process."""

    def __init__(
        self, coordinator: ModuleCoordinator, config: ChildrenConfig, runner: TaskRunner
    ) -> None:
        self.depth = depth_of(coordinator)
        self.config = config.narrowed(config.model_copy(update=runner.limits or {}))
        self._most_in_tree = (runner.limits or {}).get("max_total", config.max_total)
        self._coordinator = coordinator
        self._runner = runner

    async def launch(self, order: ChildOrder, refusal: str | None = None) -> RemoteTask:
        """Start a child; a refusal is announced, and raised as RefusedError."""
        facts = {"agent": order.agent, "background": order.background, "depth": self.depth + 1}
        refusal = refusal or too_deep(self.depth, self.config)
        started = refusal or await self._runner.start({**facts, **self._plain(order)})
        if isinstance(started, str):
            await self._coordinator.hooks.emit(REFUSED, {**facts, "reason": started})
            show(self._coordinator, f"No task was started: {started}", source=NAME)
            raise RefusedError(started)
        task = RemoteTask.model_validate(started)
        await self._announce(STARTED, task)
        return task

    def _plain(self, order: ChildOrder) -> dict[str, Any]:
        """Return an order as plain data; only the fields `prompt` to `limits` are always there."""
        plain: dict[str, Any] = {
            "prompt": order.prompt,
            "instruction": order.instruction,
            "seconds": order.seconds,
            # Merged over the plan of the calling session.
            "overlay": order.overlay,
            "limits": {
                "max_depth": self.config.max_depth,
                "max_children": self.config.max_children,
                "max_total": self._most_in_tree,
            },
        }
        for name in ("plan", "history", "session_id", "is_resumed", "told_depth", "key"):
            value = getattr(order, name)
            if value is not None and (value or name == "told_depth"):
                plain[name] = value
        return plain

    async def all(self) -> list[RemoteTask]:
        """Return every child of the session."""
        return [RemoteTask.model_validate(each) for each in await self._runner.tasks()]

    async def find(self, handle: str) -> RemoteTask:
        """Return a child by its handle; RefusedError lists the known ones."""
        tasks = {each.handle: each for each in await self.all()}
        if handle not in tasks:
            raise unknown_task(tasks)
        return tasks[handle]

    async def wait(self, handle: str, seconds: float | None) -> RemoteTask:
        """Wait for a child's end, and announce it."""
        await self.find(handle)
        task = RemoteTask.model_validate(await self._runner.wait(handle, seconds))
        if task.stop_reason is not None:
            await self._announce(FAILED if task.stop_reason == "error" else FINISHED, task)
            if task.stop_reason != COMPLETED:
                line = f"A task did not come to its end. {task.line}."
                show(self._coordinator, line, source=NAME)
        return task

    async def stop(self, handle: str) -> None:
        """Stop a child; without effect on one that has ended."""
        await self.find(handle)
        await self._runner.stop(handle)

    async def tell_news(self, event: str, data: dict[str, Any]) -> HookResult:
        """Tell the model with its next request which tasks have ended unread."""
        ended = [RemoteTask.model_validate(each) for each in await self._runner.news()]
        return news_of([each.line for each in ended])

    async def _announce(self, event: str, task: RemoteTask) -> None:
        facts = {
            "handle": task.handle,
            "child_session_id": task.child_session_id,
            "agent": task.agent,
            "background": task.background,
            "depth": self.depth + 1,
            "seconds": task.seconds,
        }
        if task.stop_reason is not None:
            facts |= {"stop_reason": task.stop_reason, "cost_usd": None}
        await self._coordinator.hooks.emit(event, facts)
