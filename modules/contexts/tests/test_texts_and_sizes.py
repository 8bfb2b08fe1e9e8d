"""How long a message is, and how it is made shorter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ToolCall
from amplifier_kit.texts import SHORTEST, shorten
from amplifier_module_contexts.short_forms import shorten_texts, text_lengths
from amplifier_module_contexts.sizes import FRAME, IMAGE, message_size


def file(media_type: str) -> dict[str, Any]:
    source = {"type": "base64", "media_type": media_type, "data": "eHh4" * 10_000, "name": "a"}
    return {"type": "image", "source": source}


@pytest.mark.parametrize(
    ("message", "characters"),
    [
        ({"role": "user", "content": "12345"}, 4 + 5),
        ({"role": "user", "content": None}, 4),
        ({"role": "tool", "tool_call_id": "c1", "name": "f", "content": "12"}, 4 + 2 + 1 + 2),
        ({"role": "user", "content": [{"text": "123"}, ["45"], 6, True]}, 4 + 4 + 3 + 2 + 1 + 4),
        ({"role": "user", "content": "1", "metadata": {"big": "x" * 99}}, 4 + 1),
        ({"role": "user", "content": [{"type": "image", "source": "x" * 10**6}]}, 4 + IMAGE),
        ({"role": "user", "content": [file("application/pdf")]}, 4 + IMAGE),
        ({"role": "user", "content": [file("text/plain")]}, 4 + 30_000),
        ({"role": "assistant", "tool_calls": [{"id": "c1", "tool": "f"}]}, 9 + 2 + 2 + 4 + 1),
    ],
)
def test_everything_that_is_sent_counts(message: dict[str, Any], characters: int) -> None:
    assert message_size(message) == FRAME + characters


def test_a_call_that_is_stored_twice_counts_once() -> None:
    block = {"type": "tool_call", "id": "c1", "name": "write", "input": {"text": "x" * 1_000}}
    call = {"id": "c1", "tool": "write", "arguments": {"text": "x" * 1_000}}
    message = {"role": "assistant", "content": [block], "tool_calls": [call]}

    assert 1_000 < message_size(message) < 1_100


def test_a_call_that_is_an_object_counts_by_its_text() -> None:
    call = ToolCall(id="c1", name="write", arguments={"text": "x" * 1_000})

    assert message_size({"role": "assistant", "tool_calls": [call]}) > 1_000


@given(st.text(), st.integers(min_value=SHORTEST, max_value=200))
def test_a_shortened_text_is_short_and_shortening_it_again_changes_nothing(
    text: str, limit: int
) -> None:
    short = shorten(text * 20, limit)

    assert len(short) <= limit
    assert shorten(short, limit) == short
    assert (short == text * 20) == (len(text) * 20 <= limit)


def test_a_note_says_how_much_is_missing() -> None:
    short = shorten("a" * 1_000, 100)

    missing = 1_000 - short.count("a") + "characters left out".count("a")
    assert f"[... {missing} characters left out ...]" in short


def test_calls_thinking_pictures_and_unknown_blocks_are_never_cut() -> None:
    long = "x" * 1_000
    content: list[Any] = [
        {"type": "thinking", "thinking": long, "signature": long},
        {"type": "tool_call", "id": long, "name": "f", "input": {"text": long}},
        {"type": "image", "source": {"data": long}},
        {"type": "vendor_state", "content": long},
        None,
    ]
    message = {"role": "assistant", "content": content}

    assert shorten_texts(message, 100) is message
    assert text_lengths(message) == []


def test_text_and_tool_output_are_cut_and_the_rest_of_their_blocks_is_not() -> None:
    long = "x" * 1_000
    result = {"type": "tool_result", "tool_call_id": long, "output": [{"a": long}, {"text": 1}]}
    message = {
        "role": "user",
        "content": [long, {"type": "text", "text": long, "id": long}, result],
    }

    cut = shorten_texts(message, 100)

    plain, text, output = cut["content"]
    assert len(plain) == len(text["text"]) == len(output["output"][0]["a"])
    assert len(plain) <= 100
    assert text["id"] == output["tool_call_id"] == long
    assert text_lengths(message) == [1_000, 1_000, 1_000]
    assert message["content"][0] == long
