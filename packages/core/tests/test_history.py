"""Tests of what a stored message calls and answers, in every form that loops keep it in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import ToolCall
from amplifier_core.history import (
    INTERRUPTED,
    answers_in,
    calls_in,
    interrupted_result,
    unanswered_calls,
)

Stored = dict[str, Any]


def result_block(call_id: str) -> Stored:
    return {"type": "tool_result", "tool_call_id": call_id, "output": "done"}


def assistant(content: Any = "", calls: Any = None) -> Stored:
    return {"role": "assistant", "content": content, "tool_calls": calls}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (assistant(), {}),
        ({"role": "user", "tool_calls": [{"id": "a", "tool": "t"}]}, {}),
        (assistant(calls=[{"id": "a", "tool": "t"}]), {"a": "t"}),
        (assistant(calls=[{"id": "a", "name": "t"}]), {"a": "t"}),
        (assistant(calls=[{"id": "a", "function": {"name": "t"}}]), {"a": "t"}),
        (assistant(calls=[ToolCall(id="a", name="t", arguments={})]), {"a": "t"}),
        (assistant(calls=[SimpleNamespace(id="a", function={"name": "t"})]), {"a": "t"}),
        (assistant(calls=[SimpleNamespace(id="a", tool="t")]), {"a": "t"}),
        (assistant([{"type": "tool_call", "id": "a", "name": "t"}]), {"a": "t"}),
        (assistant([{"type": "tool_use", "id": "a", "name": "t"}]), {"a": "t"}),
        (assistant([{"type": "text", "text": "t"}, "plain"]), {}),
        (assistant(calls=[{"id": None, "tool": "t"}]), {}),
        (
            assistant(
                [{"type": "tool_call", "id": "a", "name": "other"}], [{"id": "a", "tool": "t"}]
            ),
            {"a": "t"},
        ),
    ],
)
def test_calls_are_found_in_every_form(message: Stored, expected: dict[str, str]) -> None:
    assert calls_in(message) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "tool", "tool_call_id": "a", "content": "done"}, ["a"]),
        ({"role": "tool", "tool_call_id": "a", "content": [result_block("a")]}, ["a"]),
        ({"role": "tool", "tool_call_id": "a", "content": [result_block("b")]}, ["a", "b"]),
        (
            {
                "role": "tool",
                "tool_call_id": "a",
                "content": [result_block("a"), result_block("b")],
            },
            ["a", "b"],
        ),
        ({"role": "tool", "content": [result_block("b")]}, ["b"]),
        ({"role": "user", "content": [result_block("a"), result_block("b")]}, ["a", "b"]),
        ({"role": "user", "tool_call_id": "a", "content": "text"}, []),
        ({"role": "assistant", "content": [result_block("a")]}, []),
        ({"role": "system", "content": [result_block("a")]}, []),
    ],
)
def test_answers_are_found_in_every_form(message: Stored, expected: list[str]) -> None:
    assert answers_in(message) == expected


def test_unanswered_calls_are_named_in_call_order_with_their_tools() -> None:
    history = [
        assistant(calls=[{"id": "c", "tool": "first"}, {"id": "a", "tool": "second"}]),
        {"role": "tool", "tool_call_id": "a", "content": "done"},
        assistant(calls=[{"id": "b", "tool": "third"}]),
        {"role": "user", "content": [result_block("unknown")]},
    ]

    assert unanswered_calls(history) == {"c": "first", "b": "third"}
    assert unanswered_calls([*history, {"role": "user", "content": [result_block("c")]}]) == {
        "b": "third"
    }


def test_an_interrupted_call_is_answered_by_a_message_that_says_so() -> None:
    message = interrupted_result("a", "bash")

    assert answers_in(message) == ["a"]
    assert message["name"] == "bash"
    assert message["content"] == INTERRUPTED
    assert INTERRUPTED.startswith("[interrupted] This call was cut short")
    assert INTERRUPTED.endswith("check before you repeat it.")
