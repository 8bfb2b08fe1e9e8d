"""Marks for the vendor's cache."""

from __future__ import annotations

from typing import Any

from amplifier_module_provider_anthropic.to_wire import mark_conversation, mark_last


def message(role: str, *kinds: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": kind} for kind in kinds]}


def marked(messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [
        (place, number)
        for place, each in enumerate(messages)
        for number, block in enumerate(each["content"])
        if "cache_control" in block
    ]


def test_the_end_is_marked_and_where_the_last_request_ended() -> None:
    first = [message("user", "text")]
    second = [*first, message("assistant", "tool_use"), message("user", "tool_result", "text")]
    third = [*second, message("assistant", "text"), message("user", "text")]

    assert marked(mark_conversation(first)) == [(0, 0)]
    assert marked(mark_conversation(second)) == [(0, 0), (2, 1)]
    assert marked(mark_conversation(third)) == [(2, 1), (4, 0)]


def test_marking_leaves_what_it_was_given_alone() -> None:
    messages = [message("user", "text")]

    mark_conversation(messages)

    assert marked(messages) == []


def test_nothing_has_no_mark() -> None:
    assert mark_last([]) == []
    assert mark_conversation([]) == []
