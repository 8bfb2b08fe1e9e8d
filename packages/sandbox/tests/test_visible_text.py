"""What a user is shown of text from outside: every character, or its escape."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_sandbox.visible_text import VisibleStream, exact, hidden_in, json_text, visible

# Every kind of character that has no ink, moves the cursor or turns the writing round.
ACTING = [
    *("\x00", "\x07", "\x08", "\x0b", "\x1b", "\x7f", "\x85", "\x9b", "\x9d"),
    *("\u202a", "\u202e", "\u2066", "\u2069", "\u200e", "\u061c", "\u2028", "\u2029"),
    *("\u200b", "\u2060", "\ufeff", "\u00ad", "\u034f", "\u115f", "\u1160", "\u17b4"),
    *("\u180b", "\u180e", "\u2800", "\u3164", "\uffa0", "\ufe00", "\U000e0100"),
    *("\U000e0001", "\U000e0041", "\U0001d173", "\ue000", "\ud800", "\ufdd0", "\uffff"),
]


@pytest.mark.attack("review M2")
@pytest.mark.parametrize("character", ACTING)
def test_what_acts_or_hides_is_spelled_everywhere(character: str) -> None:
    code = ord(character)
    escape = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    assert visible(f"a{character}b") == f"a{escape}b"
    assert exact(f"a{character}b") == f"a{escape}b"
    assert character not in json_text([character])
    assert hidden_in(f"a{character}b") == [character]


@pytest.mark.parametrize(
    "text", ["a", "é", "界", "7-€ ", "e\u0301", "naïve 漢字 العربية", "\U0001f642 \u2713 \u2026"]
)
def test_what_shows_itself_stays(text: str) -> None:
    assert visible(text) == text
    assert exact(text) == text
    assert hidden_in(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "\u2764\ufe0f",
        "1\ufe0f\u20e3",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
    ],
)
def test_emoji_and_scripts_keep_their_joiners_in_text_but_not_in_names_and_questions(
    text: str,
) -> None:
    assert visible(text) == text
    assert "\\u" in exact(text)


@pytest.mark.attack("review M2")
@pytest.mark.parametrize(
    "text", ["a\ufe0fb", "\u2764\ufe0f\ufe0f", "1\ufe0f", "a\u200db", "\u2764\u200d\u200d\u2764"]
)
def test_a_joiner_that_joins_nothing_is_spelled(text: str) -> None:
    assert "\\u" in visible(text)


def test_line_ends_and_tabs_stay_in_text_and_are_spelled_in_one_line() -> None:
    assert visible("a\r\nb\tc\rd") == "a\nb\tc\\u000dd"
    assert exact("a\r\nb\tc") == "a\\r\\nb\\tc"


def test_other_blanks_are_spaces_in_text_and_spelled_in_one_line() -> None:
    assert visible("10\u202f000\u00a0km") == "10 000 km"
    assert exact("a\u00a0b") == "a\\u00a0b"


@pytest.mark.attack("review M2")
def test_letters_that_look_like_others_are_spelled_in_questions() -> None:
    assert exact("p\u0430ypal") == "p\\u0430ypal"
    assert exact("привет") == "привет"


@pytest.mark.attack("review M2")
def test_marks_that_strike_out_or_pile_up_are_spelled_in_questions() -> None:
    assert exact("r\u0336m") == "r\\u0336m"
    assert exact("e\u0301\u0302\u0303") == "e\u0301\u0302\\u0303"


@given(st.text())
def test_nothing_that_acts_is_left_and_twice_is_the_same_as_once(text: str) -> None:
    once = visible(text)
    kinds = {unicodedata.category(each) for each in once if each not in "\n\t\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert visible(once) == once
    assert exact(text).isprintable()


@given(
    st.lists(st.text(st.sampled_from("a1\u2764\U0001f469\u200d\ufe0f\u20e3\r\n\x1b\u0645\u200c")))
)
def test_text_in_pieces_is_shown_as_the_whole_would_be(pieces: list[str]) -> None:
    stream = VisibleStream()
    shown = "".join([*map(stream.feed, pieces), stream.rest()])
    assert shown == visible("".join(pieces))


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_is_printable_and_gives_back_exactly_what_went_in(value: object) -> None:
    shown = json_text(value)
    assert not hidden_in(shown)
    assert json.loads(shown) == json.loads(json.dumps(value))
