"""What counts as a difference between two runs."""

from __future__ import annotations

from typing import Any

from amplifier_journal.records import SCHEMA, Record
from amplifier_journal.replay.comparison import compare


def records(*events: tuple[str, str]) -> list[Record]:
    """Return the records of a turn with these events, each of one tool call."""
    facts: list[tuple[str, dict[str, Any]]] = [("prompt", {"turn": 1, "text": "Go."})]
    for name, call in events:
        data = {"tool_call_id": call, "tool_name": "pay"}
        facts.append(("event", {"name": name, "data": data, "inside": None}))
    return [Record(SCHEMA, seq, "", kind, data) for seq, (kind, data) in enumerate(facts, 1)]


def test_which_of_two_parallel_calls_comes_first_is_no_difference() -> None:
    asked, ended = ("approval:required", "c2"), ("tool:post", "c1")

    assert compare(records(asked, ended), records(ended, asked)) == []


def test_the_order_of_the_events_of_one_call_is_compared() -> None:
    asked, ended = ("approval:required", "c1"), ("tool:post", "c1")

    assert len(compare(records(asked, ended), records(ended, asked))) == 2


def test_a_missing_event_of_a_parallel_call_is_a_difference() -> None:
    first, second = ("tool:post", "c1"), ("tool:post", "c2")

    assert len(compare(records(first, second), records(second))) == 2


def test_output_that_was_held_back_until_its_call_ended_is_no_difference() -> None:
    ended, released = ("tool:post", "c1"), ("tool:output", "c1")

    assert compare(records(ended, released), records(ended)) == []
