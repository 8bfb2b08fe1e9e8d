"""Text from outside is made valid in one place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.message_models import ChatResponse, TextBlock, ToolCall, ToolCallBlock
from amplifier_kit.valid_text import MOST_LEVELS, TextStream, is_too_deep, valid, valid_text

# Every code point, the halves of surrogate pairs and NUL often.
_CHARACTERS = st.one_of(
    st.characters(),
    st.sampled_from(["\x00", "\ud83d", "\ude00", "\ud800", "\udfff", "\udce9", "a"]),
)
HOSTILE = st.lists(_CHARACTERS, max_size=12).map("".join)
_DATA: st.SearchStrategy[Any] = st.recursive(
    st.one_of(HOSTILE, st.integers(), st.floats(), st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(HOSTILE, inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("plain \u00e9 \U0001f600", "plain \u00e9 \U0001f600"),
        ("a\x00b", "a\u2400b"),
        ("a\ud800b", "a\ufffdb"),
        ("a\udce9", "a\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
    ],
)
def test_halves_are_joined_or_replaced_and_nul_is_shown(given_text: str, expected: str) -> None:
    assert valid_text(given_text) == expected


@given(HOSTILE)
def test_a_valid_text_can_be_encoded_and_stays_as_it_is(text: str) -> None:
    made = valid_text(text)

    assert made.encode().decode() == made
    assert "\x00" not in made
    assert valid_text(made) is made


@given(st.lists(HOSTILE, max_size=6))
def test_pieces_of_a_stream_make_up_the_valid_whole(pieces: list[str]) -> None:
    stream = TextStream()

    said = [stream.feed(piece) for piece in pieces]

    for piece in said:
        piece.encode()
    assert "".join(said) + stream.rest() == valid_text("".join(pieces))


@given(_DATA)
def test_valid_data_is_written_as_utf_8_and_read_again(data: Any) -> None:
    made = valid(data)

    text = json.dumps(made, ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode()) == json.loads(text)
    assert "\\u0000" not in text
    assert valid(made) is made


def test_data_that_needs_no_change_is_the_same_object() -> None:
    data = {"a": ["b", {"c": 1.5}], "d": ("e",), "f": None}

    assert valid(data) is data


def test_a_key_that_is_invalid_is_replaced_too() -> None:
    assert valid({"a\x00": {"\ud800": 1}}) == {"a\u2400": {"\ufffd": 1}}


def test_a_response_is_made_valid_with_its_calls_and_its_extra_fields() -> None:
    block = TextBlock.model_validate({"text": "\ud83d\ude00\x00", "origin": "x\ud800"})
    call = ToolCallBlock(id="1\x00", name="read", input={"path": ["\ud800"]})
    listed = ToolCall(id="1\x00", name="read", arguments={"path": ["\ud800"]})

    made = valid(ChatResponse(content=[block, call], tool_calls=[listed]))

    dumped = made.model_dump(exclude_none=True)
    assert dumped["content"][0]["text"] == "\U0001f600\u2400"
    assert dumped["content"][0]["origin"] == "x\ufffd"
    assert dumped["content"][1]["input"] == {"path": ["\ufffd"]}
    assert dumped["tool_calls"][0]["id"] == "1\u2400"
    assert valid(made) is made


@pytest.mark.parametrize("levels", [MOST_LEVELS, MOST_LEVELS + 1, 5_000])
def test_what_is_nested_too_deep_is_replaced_by_a_sentence(levels: int) -> None:
    data: Any = "end"
    for _ in range(levels):
        data = [data]

    text = json.dumps(valid(data))

    assert is_too_deep(data) == (levels > MOST_LEVELS)
    assert ("nested deeper" in text) == (levels > MOST_LEVELS)
    assert not is_too_deep(valid(data))


def test_numbers_that_json_does_not_have_become_their_names() -> None:
    assert valid([float("nan"), float("inf"), 1.0]) == ["nan", "inf", 1.0]
