"""Errors that a user reads: all that they say is in their text."""

from __future__ import annotations

from amplifier_kit.explained_error import ExplainedError


def test_the_text_has_what_happened_then_why_then_the_next_command() -> None:
    error = ExplainedError("It is full.", why="Its limit is 1.", fix="amplifier session prune")

    assert str(error) == "It is full. Its limit is 1. amplifier session prune"
    assert str(ExplainedError("It is full.")) == "It is full."
