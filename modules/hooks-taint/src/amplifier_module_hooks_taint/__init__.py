"""hooks-taint: untrusted text gives no orders; the user is asked about calls that act on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core import events
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult
from amplifier_kit.configuration import read_config
from amplifier_module_hooks_taint.config import TaintConfig
from amplifier_module_hooks_taint.guard import BLIND, FLAGGED, NAME, Guard
from amplifier_module_hooks_taint.ledger import Ledger

__amplifier_module_type__ = "hook"

# After hooks that edit calls, before hooks-approval, which asks about the result.
_FIRST = -1_000_000
_LATE = 1_000_000
_GUARD_SECONDS = 10.0
_FIND_LEDGER = "taint:ledger"


async def mount(
    coordinator: ModuleCoordinator, config: dict[str, Any] | None = None
) -> Callable[[], None] | None:
    """Watch what tools return and are called with, here and in all sessions forked from here."""
    settings = read_config(TaintConfig, config, NAME)
    coordinator.register_contributor("observability.events", NAME, lambda: [FLAGGED, BLIND])
    for found in await coordinator.hooks.emit_and_collect(_FIND_LEDGER, {}):
        if isinstance(found.get("ledger"), Ledger):
            # One guard for the tree: only the root session receives the user's prompts.
            found["ledger"].sessions[coordinator.session_id] = coordinator
            return None
    ledger = Ledger(settings, coordinator.session_state.setdefault(NAME, {}))
    ledger.sessions[coordinator.session_id] = coordinator
    guard = Guard(coordinator, settings, ledger)

    async def tell_ledger(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(data={"ledger": ledger})

    hooks = coordinator.hooks
    undo = [
        # Not a guard, so that no child inherits it: a child's prompt comes from a model.
        hooks.register(
            events.PROMPT_SUBMIT, guard.hear_prompt, _FIRST, NAME, timeout=_GUARD_SECONDS
        ),
        hooks.register(events.SESSION_RESUME, guard.read_history, _FIRST, NAME),
        *(
            hooks.register(event, handler, _LATE, NAME, timeout=_GUARD_SECONDS, on_error="deny")
            for event, handler in (
                (events.TOOL_PRE, guard.check_call),
                (events.TOOL_POST, guard.read_result),
                (events.TOOL_ERROR, guard.read_result),
                (_FIND_LEDGER, tell_ledger),
            )
        ),
    ]

    def cleanup() -> None:
        while undo:
            undo.pop()()

    return cleanup
