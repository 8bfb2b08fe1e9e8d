"""The capabilities `session.spawn` and `session.resume`, by which modules start children."""

from __future__ import annotations

from functools import partial
from typing import Any

from amplifier_foundation.spawn.child_plan import child_plan
from amplifier_foundation.spawn.ended_children import EndedChildren
from amplifier_foundation.spawn.request import SpawnRequest, as_preferences, find_agent
from amplifier_foundation.tracing import generate_sub_session_id
from amplifier_journal.plain import plain
from amplifier_kit.children.orders import ChildOrder, instruction_of
from amplifier_kit.children.registry import children_of
from amplifier_kit.children.remote import RemoteTasks
from amplifier_kit.children.tasks import PREPARE, Tasks

__all__ = ["IncompleteChildError", "offer_spawning"]

SPAWN = "session.spawn"
RESUME = "session.resume"
# Set up in a parent by modules that route requests; its children use the same.
_HANDED_DOWN = ("mention_resolver", "session.routing")

# Why a child ended that was stopped from outside, and not by its own loop.
_STOPPED = ("cancelled", "deadline", "interrupted", "parent_ended")


class IncompleteChildError(RuntimeError):
    """A child was stopped or failed; the message has its output so far."""


def offer_spawning(coordinator: Any, ended: EndedChildren | None = None) -> None:
    """Offer the capabilities to the modules of a session, and to those of its children.

    `ended` has the children that can be resumed; without it, the runtime finds them itself.
    """
    # A child may be offered them twice: when it is prepared, and when its log is opened.
    if coordinator.get_capability(SPAWN) is not None:
        return
    spawning = _Spawning(coordinator, ended)
    coordinator.register_capability(SPAWN, spawning.spawn)
    coordinator.register_capability(RESUME, spawning.resume)
    coordinator.register_capability(PREPARE, partial(_offer_to_child, coordinator, ended))


def _offer_to_child(parent: Any, ended: EndedChildren | None, child: Any) -> None:
    for name in _HANDED_DOWN:
        if parent.get_capability(name) is not None and child.get_capability(name) is None:
            child.register_capability(name, parent.get_capability(name))
    offer_spawning(child, ended)


class _Spawning:
    def __init__(self, coordinator: Any, ended: EndedChildren | None) -> None:
        self._coordinator = coordinator
        self._ended = ended

    async def spawn(
        self,
        agent_name: str,
        instruction: str,
        parent_session: Any = None,
        agent_configs: dict[str, Any] | None = None,
        sub_session_id: str | None = None,
        tool_inheritance: dict[str, list[str]] | None = None,
        hook_inheritance: dict[str, list[str]] | None = None,
        orchestrator_config: dict[str, Any] | None = None,
        parent_messages: list[dict[str, Any]] | None = None,
        provider_preferences: list[Any] | None = None,
        self_delegation_depth: int = 0,
        session_metadata: dict[str, Any] | None = None,
        use_subprocess: bool = False,
    ) -> dict[str, Any]:
        """Run an agent on a task in a child of this session, and return the result.

        The result has `output`, `session_id`, `status`, `turn_count` and `metadata`.
        `parent_session` and `use_subprocess` are accepted and ignored: the child is always one of
        this session's, and the app decides where sessions run.

        Raises:
            ValueError: there is no such agent, or a preference does not name a provider.
            RefusedError: limits or budget allow no further child; a RuntimeError.
            IncompleteChildError: the child failed or was stopped; a RuntimeError.
        """
        own_agents: dict[str, Any] = self._coordinator.config.get("agents") or {}
        agent = find_agent(agent_name, own_agents if agent_configs is None else agent_configs)
        request = SpawnRequest(
            agent_name=agent_name,
            tool_inheritance=tool_inheritance or {},
            hook_inheritance=hook_inheritance or {},
            orchestrator_config=orchestrator_config or {},
            provider_preferences=as_preferences(provider_preferences),
            session_metadata=session_metadata or {},
            self_delegation_depth=self_delegation_depth,
            # Stored with the child, whose log is scrubbed: a key in it is not there on a resume.
            agent=None if agent_configs is None else _unlike(agent_name, agent, own_agents),
        )
        session_id = await self._free_id(sub_session_id, agent_name)
        return await self._start(request, agent, instruction, parent_messages or [], session_id)

    async def _start(
        self,
        request: SpawnRequest,
        agent: dict[str, Any],
        prompt: str,
        messages: list[dict[str, Any]],
        session_id: str | None,
    ) -> dict[str, Any]:
        children = children_of(self._coordinator)
        order = ChildOrder(
            prompt,
            children.config.timeout_seconds,
            request.agent_name,
            plan=await self._plan(agent, request),
            instruction=instruction_of(agent),
            history=messages,
            session_id=session_id,
            told_depth=request.self_delegation_depth,
            about=request.model_dump(mode="json"),
            key=request.key(prompt, messages),
        )
        return await _run(children, order)

    async def resume(self, sub_session_id: str, instruction: str) -> dict[str, Any]:
        """Run an ended child of this session with a further prompt; return what `spawn` returns.

        Raises:
            FileNotFoundError: this session has no such child.
            RefusedError, IncompleteChildError: as `spawn` does.
        """
        children = children_of(self._coordinator)
        seconds = children.config.timeout_seconds
        if self._ended is None:
            key = SpawnRequest(agent_name=sub_session_id).key(instruction, [])
            order = ChildOrder(
                instruction, seconds, session_id=sub_session_id, is_resumed=True, key=key
            )
            return await _run(children, order)
        # The plan is made again from the request, because the child's log does not have its keys.
        child = await self._ended.find(sub_session_id, self._coordinator.session_id)
        request = child.request
        agent = request.agent
        if agent is None:
            agent = find_agent(request.agent_name, self._coordinator.config.get("agents") or {})
        order = ChildOrder(
            instruction,
            seconds,
            request.agent_name,
            plan=await self._plan(agent, request),
            history=child.messages,
            state=child.state,
            session_id=sub_session_id,
            is_resumed=True,
            told_depth=request.self_delegation_depth,
            about=request.model_dump(mode="json"),
        )
        return await _run(children, order)

    async def _plan(self, agent: dict[str, Any], request: SpawnRequest) -> dict[str, Any]:
        coordinator = self._coordinator
        return await child_plan(coordinator.config, agent, request, coordinator)

    async def _free_id(self, wanted: str | None, agent_name: str) -> str | None:
        """Return the id that the caller wants if it is valid and free, else a new one."""
        if self._ended is None or (wanted and await self._ended.is_free(wanted)):
            return wanted
        return generate_sub_session_id(agent_name, self._coordinator.session_id)


def _unlike(name: str, agent: dict[str, Any], known: dict[str, Any]) -> dict[str, Any] | None:
    """Return an agent's configuration as plain data, unless it is the one known by this name."""
    try:
        is_known = find_agent(name, known) == agent
    except ValueError:
        is_known = False
    return None if is_known else plain(agent)


async def _run(children: Tasks | RemoteTasks, order: ChildOrder) -> dict[str, Any]:
    """Run a child to its end and return its result."""
    if isinstance(children, RemoteTasks):
        started = await children.launch(order)
        task = await children.wait(started.handle, None)
        reason = str(task.stop_reason)
        was_stopped = reason in _STOPPED
        return _result(reason, task.text(), task.child_session_id, {}, was_stopped=was_stopped)
    child = await children.launch(order)
    await child.wait()
    assert child.outcome is not None
    reason, text, *_ = child.outcome
    session_id = child.order.facts["child_session_id"]
    return _result(reason, text, session_id, child.ending, was_stopped=child.was_stopped)


def _result(
    reason: str, text: str, session_id: str, ending: dict[str, Any], *, was_stopped: bool = False
) -> dict[str, Any]:
    """Return the result of a child; `status` says if its own loop ended it early."""
    # Raised, and not returned: a recipe must not continue with half an answer.
    if reason == "error" or was_stopped:
        raise IncompleteChildError(text)
    status = "success" if reason == "completed" else reason
    return {
        "output": text,
        "session_id": session_id,
        "status": ending.get("status") or status,
        "turn_count": ending.get("turn_count", 1),
        "metadata": ending.get("metadata") or {},
    }
