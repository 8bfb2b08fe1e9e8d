"""The arguments of a tool call: an object, or a clear refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.calls.messages import parse_arguments
from amplifier_kit.tools import broken_problem

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
OBJECTS = st.dictionaries(st.text(), SCALARS | st.lists(SCALARS, max_size=3), max_size=3)


def parse(raw: str, *, cut_off: bool = False) -> dict[str, Any]:
    return parse_arguments(raw, cut_off=cut_off)


@given(OBJECTS)
def test_an_object_is_read_as_it_was_written(arguments: dict[str, Any]) -> None:
    assert parse(json.dumps(arguments)) == arguments


@pytest.mark.parametrize("raw", ["", "  \n"])
def test_an_empty_text_is_an_empty_object(raw: str) -> None:
    assert parse(raw) == {}


@given(OBJECTS, st.data())
def test_a_part_of_an_object_is_never_taken_for_the_whole(
    arguments: dict[str, Any], data: st.DataObject
) -> None:
    whole = json.dumps(arguments)
    part = whole[: data.draw(st.integers(1, len(whole) - 1))]

    parsed = parse(part)

    assert not set(parsed) & set(arguments)
    assert "are not JSON" in (broken_problem(parsed) or "")
    assert "column" in (broken_problem(parsed) or "")


@pytest.mark.parametrize("raw", ["[]", "1", "null", '"text"', "true"])
def test_what_is_not_an_object_is_refused(raw: str) -> None:
    assert broken_problem(parse(raw)) == "are not a JSON object"


def test_arguments_that_met_the_limit_are_asked_for_shorter() -> None:
    problem = broken_problem(parse('{"path": "/et', cut_off=True)) or ""

    assert "cut off by the output limit" in problem
    assert "give shorter ones" in problem


def test_arguments_that_are_nested_too_deeply_are_broken_too() -> None:
    assert broken_problem(parse("[" * 100_000)) is not None


def test_what_was_read_has_no_problem() -> None:
    assert broken_problem({"path": "a"}) is None
