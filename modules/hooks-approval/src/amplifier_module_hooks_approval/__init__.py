"""hooks-approval: decides every tool call by rule, by grant or by asking, and can say why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult
from amplifier_kit.configuration import read_config
from amplifier_module_hooks_approval.config import ApprovalConfig
from amplifier_module_hooks_approval.desk import NAME, Desk
from amplifier_module_hooks_approval.grants import GrantFile, Grants
from amplifier_module_hooks_approval.guard import Guard
from amplifier_module_hooks_approval.handler_limits import within

__amplifier_module_type__ = "hook"

_FIRST = -10
_LAST = sys.maxsize
# Beyond the time that a person has: what the guard itself needs before it counts as failed.
_GRACE_SECONDS = 10.0
_FIND_DESK = "approval:desk"
_ANSWER_SECONDS = 300.0


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None]:
    """Guard every tool call of this session, and of all sessions forked from it."""
    settings = read_config(ApprovalConfig, config, NAME)
    desk = await _desk_for(coordinator, settings)
    waits = getattr(coordinator.approval_system, "waits_for_user", False) is True
    if settings.timeout_seconds is None and not waits:
        settings = settings.model_copy(update={"timeout_seconds": _ANSWER_SECONDS})
    guard = Guard(coordinator, settings, desk)
    desk.sessions[coordinator.session_id] = coordinator
    coordinator.register_capability("approval.grants", desk)
    coordinator.register_capability("approval.register_provider", desk.register_provider)
    coordinator.register_capability("approval.concern", desk.raise_concern)

    async def tell_desk(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(data={"desk": desk})

    own_seconds = settings.batch_seconds + _GRACE_SECONDS
    # While a question waits without a limit, `within` still limits the guard's own work.
    seconds = settings.timeout_seconds
    limit = None if seconds is None else seconds + own_seconds
    decide = within(own_seconds, guard.decide, lambda: bool(desk.waiting()))
    undo: list[Callable[[], None]] = [
        coordinator.hooks.register(event, handler, priority, NAME, timeout=most, on_error="deny")
        for event, handler, priority, most in (
            (events.TOOL_PRE, guard.deny_early, _FIRST, _GRACE_SECONDS),
            (events.TOOL_PRE, decide, _LAST, limit),
            # Guards are what sessions forked from this one inherit; by this one they find the desk.
            (_FIND_DESK, tell_desk, 0, _GRACE_SECONDS),
        )
    ]

    def cleanup() -> None:
        desk.leave(coordinator)
        while undo:
            undo.pop()()

    return cleanup


async def _desk_for(coordinator: ModuleCoordinator, config: ApprovalConfig) -> Desk:
    """Return the desk of the tree this session belongs to, or a new one."""
    for found in await coordinator.hooks.emit_and_collect(_FIND_DESK, {}):
        if isinstance(found.get("desk"), Desk):
            return found["desk"]
    state: dict[str, Any] = coordinator.session_state.setdefault(NAME, {})
    grants = Grants(GrantFile(config.grants_file), state)
    return Desk(coordinator, grants, state, lambda: datetime.now(UTC))
