"""Contract of the coordinator: what hooks tell the user, and their wish to suppress output."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_core import HookResult, ModuleCoordinator
from amplifier_core.models import UserMessage
from contract.doubles import Approvals, Display, Memory
from contract.requirements import requirement


def _logged_by_the_kernel(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("amplifier_core")]


@requirement("COORD-46")
async def test_a_display_that_fails_once_is_asked_again_for_the_next_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Flickering(Display):
        def show_message(self, message: str, level: str, source: str = "hook") -> None:
            super().show_message(message, level, source)
            if message == "one":
                raise RuntimeError("no terminal")

    display = Flickering()
    coordinator = ModuleCoordinator(None, None, display)
    messages = [UserMessage(text="one"), UserMessage(text="two")]

    await coordinator.process_hook_result(HookResult(user_messages=messages), "a:b", "linter")

    assert [text for text, _, _ in display.shown] == ["one", "two"]
    (record,) = _logged_by_the_kernel(caplog)
    assert record.exc_info is not None
    assert "linter" in record.getMessage()


@requirement("COORD-47")
@pytest.mark.parametrize("suppress", [False, True])
@pytest.mark.parametrize("action", ["deny", "modify", "ask_user", "inject_context"])
async def test_a_wish_to_suppress_output_is_logged_and_changes_nothing_else(
    caplog: pytest.LogCaptureFixture, action: Any, suppress: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    display, approvals = Display(), Approvals()
    coordinator, memory = ModuleCoordinator(None, approvals, display), Memory()
    await coordinator.mount("context", memory)
    result = HookResult(
        action=action,
        data={"n": 1},
        context_injection="text",
        suppress_output=suppress,
        user_messages=[UserMessage(text="hi")],
    )

    left = await coordinator.process_hook_result(result, "tool:post", "linter")

    wishes = [
        record.getMessage()
        for record in _logged_by_the_kernel(caplog)
        if "suppress" in record.getMessage()
    ]
    assert len(wishes) == (1 if suppress else 0)
    assert all("linter" in wish and "tool:post" in wish for wish in wishes)
    assert left.suppress_output is suppress
    assert left.data == {"n": 1}
    assert display.shown == [("hi", "info", "hook:linter")]
    assert len(approvals.asked) == (1 if action == "ask_user" else 0)
    stored = [message["content"] for message in memory.messages]
    assert stored == (["text"] if action == "inject_context" else [])


@requirement("COORD-46")
async def test_without_a_display_every_message_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    messages = [UserMessage(text="one"), UserMessage(text="two", level="error")]

    await ModuleCoordinator().process_hook_result(HookResult(user_messages=messages), "a:b", "h")

    assert len(_logged_by_the_kernel(caplog)) == 2
