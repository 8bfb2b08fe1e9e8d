"""Messages of modules to the user: short, and without secrets."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit import notices


def shown(coordinator: Any, message: str) -> str:
    notices.show(coordinator, message, source="test")
    return coordinator.display_system.show_message.call_args_list[-1].args[0]


@pytest.mark.attack("review untried")
@pytest.mark.parametrize("message", ["line\n" * 1_000, "x" * 10_000_000, "x\n" * 3 + "y" * 5_000])
def test_a_message_has_at_most_three_lines_and_says_that_it_was_cut(message: str) -> None:
    text = shown(MockCoordinator(), message)

    assert len(text.splitlines()) <= 3
    assert len(text) < 1_010
    assert text.endswith(" [cut]")


def test_a_short_message_is_shown_as_it_is() -> None:
    assert shown(MockCoordinator(), "one\ntwo\nthree") == "one\ntwo\nthree"


@pytest.mark.attack("review untried")
def test_a_secret_at_the_cut_is_taken_out_as_a_whole() -> None:
    coordinator: Any = MockCoordinator()

    def redacted(text: str) -> str:
        return text.replace("s3cret", "***")

    coordinator.register_capability("redaction.text", redacted)

    text = shown(coordinator, "x" * 997 + "s3cret" + "y" * 100)

    assert "s3" not in text
    assert "***" in text
