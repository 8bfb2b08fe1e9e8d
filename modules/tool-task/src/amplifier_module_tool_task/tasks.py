"""The children of one session: who may be started, who runs, and what became of them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection
from decimal import Decimal
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult
from amplifier_core.session import AmplifierSession
from amplifier_kit.notices import show
from amplifier_module_tool_task.agents import agents_in, overlay_of
from amplifier_module_tool_task.child import NAME, REFUSED, Child, Order
from amplifier_module_tool_task.config import TaskConfig

logger = logging.getLogger(__name__)

_ABOVE = "task.above"
# The name under which other modules know it, and by which an app tells of a tree of its own.
DEPTH = "self_delegation_depth"


class RefusedError(RuntimeError):
    """What was asked for is not done; says why, for the model."""


class Tasks:
    """Starts children within the limits, and ends them all together with the session."""

    def __init__(self, coordinator: ModuleCoordinator, config: TaskConfig) -> None:
        self.agents = agents_in(coordinator.config)
        self.children: dict[str, Child] = {}
        self._coordinator = coordinator
        self._starting = 0
        self._is_closed = False
        above: Tasks | None = coordinator.get_capability(_ABOVE)
        self.depth: int = coordinator.get_capability(DEPTH) or 0
        self.config = config if above is None else config.narrowed(above.config)
        self._root: Tasks = self if above is None else above._root
        self._started_in_tree = 0

    async def start(self, prompt: str, agent: str, background: bool, seconds: float) -> Child:
        """Start a child; raises RefusedError, and says it, when there may be none."""
        session_id = f"{self._coordinator.session_id}-{secrets.token_hex(4)}"
        facts = {"agent": agent, "background": background, "depth": self.depth + 1}
        self._starting += 1
        self._root._started_in_tree += 1
        try:
            if refusal := await self._refusal(agent, session_id):
                await self._coordinator.hooks.emit(REFUSED, {**facts, "reason": refusal})
                show(self._coordinator, f"No task was started: {refusal}", source=NAME)
                raise RefusedError(refusal)
            chosen = self.agents.get(agent, {})
            session = self._fork(chosen, session_id)
            handle = f"task-{len(self.children) + 1}"
            facts |= {"handle": handle, "child_session_id": session_id}
            system: dict[str, Any] = chosen.get("system") or {}
            order = Order(facts, prompt, system.get("instruction") or "", seconds)
            child = self.children[handle] = Child(self._coordinator, session, order, self.config)
            return child
        except BaseException:
            self._root._started_in_tree -= 1
            raise
        finally:
            self._starting -= 1

    async def close(self) -> None:
        """End all children, and start no more."""
        self._is_closed = True
        await asyncio.gather(*(each.stop("parent_ended") for each in self._running()))

    async def end_with_session(self, event: str, data: dict[str, Any]) -> None:
        """End all children, while the guards that they share still stand."""
        await self.close()

    def cost(self) -> dict[str, str] | None:
        """Return what the children that have ended did cost; None unless it is known of all."""
        ended = [each.outcome for each in self.children.values() if each.outcome]
        known = [outcome.cost_usd for outcome in ended if outcome.cost_usd is not None]
        if not known or len(known) < len(ended):
            return None
        return {"cost_usd": str(sum(known, Decimal(0)))}

    async def tell_news(self, event: str, data: dict[str, Any]) -> HookResult:
        """Let the model know, with its next request, which tasks have ended unread."""
        news = [each for each in self.children.values() if each.outcome and not each.is_read]
        for child in news:
            child.is_read = True
        return news_of([child.line for child in news])

    def _running(self) -> list[Child]:
        return [each for each in self.children.values() if not each.watch.done()]

    async def _refusal(self, agent: str, session_id: str) -> str | None:
        """Return why this child, which is counted already, may not be started."""
        if refusal := unknown_agent(self.agents, agent) or too_deep(self.depth, self.config):
            return refusal
        most, total = self.config.max_children, self._root.config.max_total
        if len(self._running()) + self._starting > most:
            return f"{most} tasks are running, the most there may be. Wait for one to end."
        if self._root._started_in_tree > total:
            return f"All {total} agents were started. Do the rest yourself."
        if refusal := await self._without_lease(session_id):
            return f"The budget gives no lease: {refusal}. Do the work yourself."
        if self._is_closed or not isinstance(self._coordinator.session, AmplifierSession):
            return "This session has ended, or can have no children."
        return None

    async def _without_lease(self, session_id: str) -> str | None:
        lease = self._coordinator.get_capability("budget.lease")
        try:
            return lease and await lease(session_id, self.depth + 1)
        except Exception:
            logger.exception("lease not asked for session=%s", session_id)
            return "it could not be asked"

    def _fork(self, agent: dict[str, Any], session_id: str) -> AmplifierSession:
        parent: AmplifierSession = self._coordinator.session
        child = parent.fork(overlay_of(agent, parent.config), session_id=session_id)
        given = {name: self._coordinator.get_capability(name) for name in self.config.hand_down}
        for name, value in {**given, _ABOVE: self, DEPTH: self.depth + 1}.items():
            if value is not None:
                child.coordinator.register_capability(name, value)
        return child


def unknown_agent(agents: Collection[str], agent: str) -> str | None:
    """Return why an agent of this name cannot be had, if so."""
    if not agent or agent in agents:
        return None
    return f"There is no agent `{agent[:100]}`. Known: {', '.join(agents) or 'none'}."


def too_deep(depth: int, config: TaskConfig) -> str | None:
    """Return why a session so far below the root may have no children, if so."""
    if depth < config.max_depth:
        return None
    return f"Agents may be nested {config.max_depth} deep. Do the work yourself."


def unknown_task(known: Collection[str]) -> RefusedError:
    """Return the answer to a handle that nobody gave."""
    return RefusedError(f"There is no such task. Known: {', '.join(known) or 'none'}.")


def news_of(ended: list[str]) -> HookResult:
    """Return what tells the model, with one request, of tasks that have ended."""
    if not ended:
        return HookResult()
    lines = ["These tasks have ended; `task_result` gives their results:"]
    notice = "\n".join([*lines, *(f"- {line}" for line in ended)])
    given = {"context_injection": notice, "context_injection_role": "user"}
    return HookResult.model_validate({"action": "inject_context", "ephemeral": True, **given})
