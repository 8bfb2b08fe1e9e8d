"""Trust and loader agree on every source that is made up, and what once differed is found."""

from __future__ import annotations

import pytest

from fuzz_sources import Found, compare

# What the review found, as the forms of which the generator makes it.
FORMS = {
    "./mods#1": {"dot", "folder mods#1"},
    "@mods/a": {"folder @mods/a"},
    "${PWD}/mods": {"variable", "folder mods"},
    "file:///proc/self/cwd/%6dods": {"file cwd", "escaped"},
    "a path over 1,000 characters": {"long"},
}


def test_what_trust_lists_is_what_the_loader_opens() -> None:
    result = compare(600, seed=20_250_101)

    assert result.found == []
    assert result.table["listed and opened"] > 50
    assert result.table["refused by both"] > 100


@pytest.mark.slow
def test_what_trust_lists_is_what_the_loader_opens_in_a_thousand_cases() -> None:
    assert compare(1_000, seed=20_250_102).found == []


@pytest.fixture(scope="module")
def unlisted() -> list[Found]:
    """What was opened and not listed when each side had a reader of its own."""
    found = compare(6_000, seed=20_250_103, words=True).found
    return [each for each in found if each.opened != "nothing"]


@pytest.mark.attack("review H3")
@pytest.mark.parametrize("forms", FORMS.values(), ids=FORMS.keys())
def test_the_generator_finds_what_two_readers_of_a_source_let_through(
    forms: set[str], unlisted: list[Found]
) -> None:
    assert any(forms <= set(each.case.forms) for each in unlisted)
