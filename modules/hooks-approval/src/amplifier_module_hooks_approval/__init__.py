"""hooks-approval: decides every tool call by rule, by grant or by asking, and explains it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult
from amplifier_kit.children.child import STARTED
from amplifier_kit.configuration import read_config
from amplifier_kit.turn_events import MODE_CHANGED
from amplifier_module_hooks_approval.broker import NAME, Broker
from amplifier_module_hooks_approval.config import ApprovalConfig
from amplifier_module_hooks_approval.grants import GrantFile, Grants
from amplifier_module_hooks_approval.guard import Guard
from amplifier_module_hooks_approval.handler_limits import within
from amplifier_module_hooks_approval.rules import call_from

__amplifier_module_type__ = "hook"

_FIRST = -10
_LAST = sys.maxsize
# What the guard itself may take, besides the time of a question, before it counts as failed.
_GRACE_SECONDS = 10.0
_FIND_DESK = "approval:broker"
# Without a limit, an app that has no user at hand would leave its turns open.
_ANSWER_SECONDS = 300.0


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Guard the tool calls of this session and of all sessions forked from it."""
    settings = read_config(ApprovalConfig, config, NAME)
    broker = await _desk_for(coordinator, settings)
    waits = getattr(coordinator.approval_system, "waits_for_user", False) is True
    if settings.timeout_seconds is None and not waits:
        settings = settings.model_copy(update={"timeout_seconds": _ANSWER_SECONDS})
    guard = Guard(coordinator, settings, broker)
    broker.sessions[coordinator.session_id] = coordinator
    coordinator.register_capability("approval.grants", broker)
    coordinator.register_capability("approval.register_provider", broker.register_provider)
    coordinator.register_capability("approval.concern", broker.raise_concern)

    known = [MODE_CHANGED]
    coordinator.register_contributor("observability.events", NAME, known.copy)

    async def tell_desk(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(data={"broker": broker})

    own_seconds = settings.batch_seconds + _GRACE_SECONDS
    # A question may wait without a limit; `within` limits the guard's own work even then.
    seconds = settings.timeout_seconds
    limit = None if seconds is None else seconds + own_seconds
    decide = within(own_seconds, guard.decide, lambda data: broker.is_asking(call_from(data)))
    # Registered twice: denials come first, so that no hook works for nothing. The decision comes
    # last, so that the user is asked about the call as other hooks have left it.
    undo: list[Callable[[], None]] = [
        coordinator.hooks.register(event, handler, priority, NAME, timeout=most, on_error="deny")
        for event, handler, priority, most in (
            (events.TOOL_PRE, guard.deny_early, _FIRST, _GRACE_SECONDS),
            (events.TOOL_PRE, decide, _LAST, limit),
            (events.TOOL_POST, guard.tell_model, _FIRST, _GRACE_SECONDS),
            (STARTED, broker.note_agent, _FIRST, _GRACE_SECONDS),
            # Forked sessions inherit guards, so they find the broker of their tree by this one.
            (_FIND_DESK, tell_desk, 0, _GRACE_SECONDS),
        )
    ]

    def cleanup() -> None:
        broker.leave(coordinator)
        while undo:
            undo.pop()()

    return cleanup


async def _desk_for(coordinator: ModuleCoordinator, config: ApprovalConfig) -> Broker:
    """Return the broker of the tree this session belongs to, or a new one."""
    for found in await coordinator.hooks.emit_and_collect(_FIND_DESK, {}):
        if isinstance(found.get("broker"), Broker):
            return found["broker"]
    state: dict[str, Any] = coordinator.session_state.setdefault(NAME, {})
    # A session that is resumed has the mode that it had, unless it is given another one. The mode
    # of an option is in the configuration of that run alone.
    is_given = "mode" in config.model_fields_set or "mode" not in state
    if is_given and state.get("configured_mode") != config.mode:
        state.update(mode=config.mode, configured_mode=config.mode)
    grants = Grants(GrantFile(config.grants_file), state)
    return Broker(coordinator, grants, state, lambda: datetime.now(UTC))
