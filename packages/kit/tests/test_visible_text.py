"""A person sees every character, or the number of it."""

from __future__ import annotations

import pytest

from amplifier_kit.visible_text import spelled


@pytest.mark.parametrize("character", ["a", "é", "界", "7", "-", "€", " ", "\u0301"])
def test_what_shows_itself_stays(character: str) -> None:
    assert spelled(character) == character


@pytest.mark.attack("P3")
@pytest.mark.parametrize(
    ("character", "number"),
    [
        ("\x1b", "001B"),
        ("\n", "000A"),
        ("\u202e", "202E"),
        ("\u200b", "200B"),
        ("\U000e0041", "E0041"),
    ],
)
def test_what_acts_or_hides_is_spelled_out(character: str, number: str) -> None:
    assert spelled(character) == f"<U+{number}>"
