"""Tests of texts that arrive in pieces: no seam hides a secret, and no text is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.secrets.scrubber import MARK_START, EventStreams, Scrubber

DELTA, END = "llm:stream_block_delta", "llm:stream_block_end"
Planted = tuple[str, str, str]


def stream(pieces: list[str], known: dict[str, str] | None = None) -> str:
    """Return what is given out of a text that arrives in these pieces, and then ends."""
    streams = EventStreams(Scrubber(known))
    identity = {"request_id": "r", "block_index": 0}
    out = [
        streams.feed(DELTA, {**identity, "sequence": number, "text": piece})["text"]
        for number, piece in enumerate(pieces)
    ]
    return "".join([*out, *(data["text"] for _, data in streams.end(END, identity))])


@pytest.mark.attack("K1")
def test_a_secret_split_anywhere_is_blanked(planted: Planted) -> None:
    _, example, secret = planted
    text = f"before {example}; after"

    for seam in range(1, len(text)):
        clean = stream([text[:seam], text[seam:]])
        assert secret[:10] not in clean
        assert secret[-10:] not in clean
        assert MARK_START in clean
        assert clean.startswith("before ")
        assert clean.endswith(" after")


@pytest.mark.attack("K1")
def test_a_secret_that_arrives_letter_by_letter_is_blanked(planted: Planted) -> None:
    _, example, secret = planted

    clean = stream(list(f"before {example}; after"))

    assert secret not in clean
    assert MARK_START in clean


@pytest.mark.attack("K1")
def test_a_known_secret_with_spaces_and_accents_is_blanked_across_any_seam() -> None:
    secret = "correct horse bättery"
    text = f"say {secret} now"

    for seam in range(1, len(text)):
        assert stream([text[:seam], text[seam:]], {secret: "X"}) == "say [REDACTED:X] now"


@given(st.lists(st.text(st.sampled_from("ab =:.é\n-"), max_size=8), max_size=30))
def test_text_without_secrets_arrives_whole_and_in_order(pieces: list[str]) -> None:
    assert stream(pieces) == "".join(pieces)


def test_words_are_given_out_as_soon_as_they_are_complete() -> None:
    streams = EventStreams(Scrubber())

    first = streams.feed(DELTA, {"request_id": "r", "text": "Hello wor"})
    second = streams.feed(DELTA, {"request_id": "r", "text": "ld, you"})

    assert (first["text"], second["text"]) == ("Hello ", "world, ")


def test_streams_are_told_apart_and_end_one_by_one() -> None:
    streams = EventStreams(Scrubber())
    streams.feed("tool:output", {"tool_call_id": "1", "stream": "stdout", "text": "one"})
    streams.feed("tool:output", {"tool_call_id": "2", "stream": "stdout", "text": "two"})
    streams.feed(DELTA, {"request_id": "r", "block_index": 0, "sequence": 4, "text": "three"})

    assert streams.end("tool:post", {"tool_call_id": "1", "tool_name": "x"}) == [
        ("tool:output", {"tool_call_id": "1", "stream": "stdout", "text": "one"})
    ]
    rest = streams.end("execution:end", {})
    assert [data["text"] for _, data in rest] == ["two", "three"]
    assert rest[1][1]["sequence"] == 5
    assert streams.end("execution:end", {}) == []


def test_other_events_are_none_of_its_business() -> None:
    streams = EventStreams(Scrubber())
    data: dict[str, Any] = {"text": "half a wor"}

    assert streams.feed("tool:pre", data) is data
    assert streams.feed(DELTA, {"text": None}) == {"text": None}


def test_what_is_held_back_is_bounded() -> None:
    streams = EventStreams(Scrubber())

    given_out = streams.feed(DELTA, {"text": "a" * 100_000})

    assert len(given_out["text"]) == 100_000
