"""The behaviour that every hook module must have."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from amplifier_core.models import HookResult
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.proto_schema import VALID_HOOK_ACTIONS

__all__ = ["HookBehaviorTests"]

_SAMPLE = {
    "session_id": "test-session",
    "prompt": "hello",
    "tool_name": "test_tool",
    "tool_call_id": "call-1",
    "tool_input": {"value": 1},
    "result": {"success": True, "output": "done"},
}


async def _answers(coordinator: MockCoordinator, data: Any) -> list[Any]:
    """Return the answers to every event that has a handler, or to a common one if none has."""
    events = [event for event, names in coordinator.hooks.list_handlers().items() if names]
    return [await coordinator.hooks.emit(event, data) for event in events or ["tool:pre"]]


async def _clean_up(cleanup: Any) -> None:
    outcome = cleanup() if callable(cleanup) else None
    if inspect.isawaitable(outcome):
        await outcome


@pytest.mark.asyncio
@pytest.mark.module_validation
class HookBehaviorTests:
    """Inherit this in the tests of a hook module."""

    async def test_mount_succeeds(self, hook_cleanup: Any, coordinator: MockCoordinator) -> None:
        """Mounting leaves a registry that works."""
        assert coordinator.hooks is coordinator.get("hooks")

    async def test_handler_returns_hook_result(
        self, hook_cleanup: Any, coordinator: MockCoordinator
    ) -> None:
        """Events are answered with a HookResult."""
        for answer in await _answers(coordinator, dict(_SAMPLE)):
            assert isinstance(answer, HookResult)

    async def test_hook_result_has_valid_action(
        self, hook_cleanup: Any, coordinator: MockCoordinator
    ) -> None:
        """The answer is one that a loop understands."""
        for answer in await _answers(coordinator, dict(_SAMPLE)):
            assert answer.action in VALID_HOOK_ACTIONS

    async def test_cleanup_is_callable_if_present(self, hook_cleanup: Any) -> None:
        """What mount returns is a cleanup or nothing."""
        assert hook_cleanup is None or callable(hook_cleanup)

    async def test_cleanup_does_not_raise(self, hook_cleanup: Any) -> None:
        """Cleaning up works, and works again."""
        await _clean_up(hook_cleanup)
        await _clean_up(hook_cleanup)

    async def test_handler_does_not_crash_on_malformed_data(
        self, hook_cleanup: Any, coordinator: MockCoordinator
    ) -> None:
        """An event without data is answered."""
        for answer in await _answers(coordinator, None):
            assert answer is None or isinstance(answer, HookResult)

    async def test_handler_does_not_crash_on_empty_data(
        self, hook_cleanup: Any, coordinator: MockCoordinator
    ) -> None:
        """An event with empty data is answered."""
        for answer in await _answers(coordinator, {}):
            assert answer is None or isinstance(answer, HookResult)
