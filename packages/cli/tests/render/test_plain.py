"""Text that is safe to show, and numbers that are easy to read."""

from __future__ import annotations

from decimal import Decimal

import pytest

from amplifier_cli.render.plain import (
    count,
    duration,
    lines_of,
    message_of,
    money,
    program_output,
)
from amplifier_sandbox.visible_text import visible


@pytest.mark.attack("P3")
@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2Jrm", "\\u001b[2Jrm"),
        ("safe\u202egnirts", "safe\\u202egnirts"),
        ("no\u200bthing", "no\\u200bthing"),
        ("back\b\bspace", "back\\u0008\\u0008space"),
        ("over\rwritten", "over\\u000dwritten"),
        ("\x9b31m", "\\u009b31m"),
        ("tag\U000e0041", "tag\\U000e0041"),
    ],
)
def test_what_acts_on_a_terminal_or_hides_is_spelled_out(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


def test_all_kinds_of_writing_are_shown_as_they_are() -> None:
    text = "naïve 漢字 العربية \U0001f469\u200d\U0001f4bb\n\ttabs too"
    assert visible(text) == text


def test_colours_and_progress_bars_of_programs_are_taken_out() -> None:
    assert program_output("\x1b[31mred\x1b[0m\n 1%\r50%\rdone\n") == "red\ndone\n"
    assert program_output("\x1b]0;title\x07text") == "text"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0s"), (9.94, "9.9s"), (61, "1m01s"), (3_660, "1h01m")]
)
def test_times_are_short(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(999, "999"), (1_234, "1.2k"), (128_000, "128k"), (1_000_000, "1M")]
)
def test_tokens_are_short(number: int, shown: str) -> None:
    assert count(number) == shown


def test_fractions_of_a_cent_are_not_rounded_away() -> None:
    assert [money(Decimal(each)) for each in ("0", "0.0012", "1.5")] == [
        "$0.00",
        "$0.0012",
        "$1.50",
    ]


def test_lines_are_counted_in_words() -> None:
    assert [lines_of(each) for each in ("", "a", "a\nb\n")] == ["no output", "1 line", "2 lines"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("why", "why"),
        ({"message": "why", "type": "x"}, "why"),
        ({"type": "ValueError", "msg": "why"}, "why"),
        ({"error": "why"}, "why"),
        ({"code": 1}, "{'code': 1}"),
        (None, "None"),
    ],
)
def test_the_message_of_an_error_is_found(error: object, message: str) -> None:
    assert message_of(error) == message
