"""The children of one session in this process: limits, running children, and outcomes."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection
from decimal import Decimal
from typing import Any

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.correlation import current_tool_call_id
from amplifier_core.models import HookResult
from amplifier_core.session import AmplifierSession
from amplifier_kit.children.child import NAME, REFUSED, Child, Order
from amplifier_kit.children.config import ChildrenConfig
from amplifier_kit.children.inheritance import child_session
from amplifier_kit.children.orders import ChildOrder
from amplifier_kit.notices import show

logger = logging.getLogger(__name__)

_ABOVE = "task.above"
DEPTH = "task.depth"
"""How deep in a tree of sessions this one is, if whoever is above it runs elsewhere."""
TOLD_DEPTH = "self_delegation_depth"
"""The same as other modules know it: some begin to count again with each agent that has a name."""
ABOUT = "session.spawned"
"""What is kept with a child about how it was started, as plain data."""
PREPARE = "session.prepare_child"
"""Gets the coordinator of each child before its modules mount, to offer what the app does."""

Prepare = Callable[[ModuleCoordinator], None]


class RefusedError(RuntimeError):
    """A request was refused; the message tells the model why."""


class Tasks:
    """Starts children within the limits, and ends them all together with the session."""

    def __init__(self, coordinator: ModuleCoordinator, config: ChildrenConfig) -> None:
        self.children: dict[str, Child] = {}
        self._coordinator = coordinator
        self._starting = 0
        self._is_closed = False
        above: Tasks | None = coordinator.get_capability(_ABOVE)
        if above is None:
            self.depth = depth_of(coordinator)
        else:
            self.depth = above.depth + 1
        if above is None:
            self.config = config
        else:
            self.config = config.narrowed(above.config)
        self._root: Tasks = self if above is None else above._root
        self._started_in_tree = 0

    async def launch(self, order: ChildOrder, refusal: str | None = None) -> Child:
        """Start a child; a refusal is announced, and raised as RefusedError."""
        session_id = order.session_id or f"{self._coordinator.session_id}-{secrets.token_hex(4)}"
        facts = {"agent": order.agent, "background": order.background, "depth": self.depth + 1}
        # A resumed child was counted when it was started.
        added = 0 if order.is_resumed else 1
        # Counted before the first await, so that parallel launches cannot exceed a limit together.
        self._starting += 1
        self._root._started_in_tree += added
        try:
            if refusal := refusal or await self._refusal(session_id):
                await self._coordinator.hooks.emit(REFUSED, {**facts, "reason": refusal})
                show(self._coordinator, f"No task was started: {refusal}", source=NAME)
                raise RefusedError(refusal)
            session = self._make(order, session_id)
            handle = f"task-{len(self.children) + 1}"
            facts |= {
                "handle": handle,
                "child_session_id": session_id,
                "parent_tool_call_id": current_tool_call_id(),
            }
            work = Order(facts, order.prompt, order.messages, order.seconds)
            child = self.children[handle] = Child(self._coordinator, session, work, self.config)
            return child
        except BaseException:
            self._root._started_in_tree -= added
            raise
        finally:
            self._starting -= 1

    def count_on(self, earlier: Tasks) -> None:
        """Continue the count of `earlier`, which this object replaces."""
        self._started_in_tree = earlier._started_in_tree

    def is_running(self, session_id: str) -> bool:
        """Whether a child of this session has not ended."""
        facts = [each.order.facts for each in self._running()]
        return session_id in [each["child_session_id"] for each in facts]

    async def close(self) -> None:
        """End all children, and start no more."""
        self._is_closed = True
        await asyncio.gather(*(each.stop("parent_ended") for each in self._running()))

    async def end_with_session(self, event: str, data: dict[str, Any]) -> None:
        """End all children, while the guards that they share are still registered."""
        await self.close()

    def cost(self) -> dict[str, str] | None:
        """Return the cost of the children that have ended; None unless it is known for all."""
        ended = [each.outcome for each in self.children.values() if each.outcome]
        known = [outcome.cost_usd for outcome in ended if outcome.cost_usd is not None]
        if not known or len(known) < len(ended):
            return None
        return {"cost_usd": str(sum(known, Decimal(0)))}

    async def tell_news(self, event: str, data: dict[str, Any]) -> HookResult:
        """Tell the model with its next request which tasks have ended unread."""
        news = [each for each in self.children.values() if each.outcome and not each.is_read]
        for child in news:
            child.is_read = True
        return news_of([child.line for child in news])

    def _running(self) -> list[Child]:
        return [each for each in self.children.values() if not each.watch.done()]

    async def _refusal(self, session_id: str) -> str | None:
        """Return why this child, which is already counted, may not be started."""
        if refusal := too_deep(self.depth, self.config):
            return refusal
        if self.is_running(session_id):
            return "This agent is still at work. Wait for it to end."
        most = self.config.max_children
        total = self._root.config.max_total
        if len(self._running()) + self._starting > most:
            return f"{most} tasks are running, the most there may be. Wait for one to end."
        if self._root._started_in_tree > total:
            return f"All {total} agents were started. Do the rest yourself."
        if refusal := await self._without_lease(session_id):
            return f"The budget gives no lease: {refusal}. Do the work yourself."
        # Last, because the session may have ended while the budget was asked.
        if self._is_closed or not isinstance(self._coordinator.session, AmplifierSession):
            return "This session has ended, or can have no children."
        return None

    async def _without_lease(self, session_id: str) -> str | None:
        lease = self._coordinator.get_capability("budget.lease")
        try:
            return lease and await lease(session_id, self.depth + 1)
        except Exception:
            # Fails closed: without an answer of the budget no child is started.
            logger.exception("lease not asked for session=%s", session_id)
            return "it could not be asked"

    def _make(self, order: ChildOrder, session_id: str) -> AmplifierSession:
        parent: AmplifierSession = self._coordinator.session
        if order.plan is None:
            child = parent.fork(order.overlay, session_id=session_id)
        else:
            child = child_session(
                parent, order.plan, session_id=session_id, is_resumed=order.is_resumed
            )
        coordinator = child.coordinator
        coordinator.session_state.update(order.state)
        below = self.depth + 1
        told = below if order.told_depth is None else order.told_depth
        given = {name: self._coordinator.get_capability(name) for name in self.config.hand_down}
        for name, value in {**given, _ABOVE: self, TOLD_DEPTH: told, ABOUT: order.about}.items():
            if value is not None:
                coordinator.register_capability(name, value)
        prepare: Prepare | None = self._coordinator.get_capability(PREPARE)
        if prepare is not None:
            prepare(coordinator)
        return child


def depth_of(coordinator: ModuleCoordinator) -> int:
    """Return the depth of a session whose parent is not in this process."""
    known = coordinator.get_capability(DEPTH)
    return known or coordinator.get_capability(TOLD_DEPTH) or 0


def too_deep(depth: int, config: ChildrenConfig) -> str | None:
    """Return why a session at this depth may have no children; None if it may."""
    if depth < config.max_depth:
        return None
    return f"Agents may be nested {config.max_depth} deep. Do the work yourself."


def unknown_task(known: Collection[str]) -> RefusedError:
    """Return the error for an unknown handle."""
    return RefusedError(f"There is no such task. Known: {', '.join(known) or 'none'}.")


def news_of(ended: list[str]) -> HookResult:
    """Return the hook result that reports ended tasks to the model, with one request only."""
    if not ended:
        return HookResult()
    lines = ["These tasks have ended; `task_result` gives their results:"]
    notice = "\n".join([*lines, *(f"- {line}" for line in ended)])
    given = {"context_injection": notice, "context_injection_role": "user"}
    return HookResult.model_validate({"action": "inject_context", "ephemeral": True, **given})
