"""The arguments of a tool call: an object, or a clear refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_kit.calls.arguments import parse_arguments

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
OBJECTS = st.dictionaries(st.text(), SCALARS | st.lists(SCALARS, max_size=3), max_size=3)


def parse(raw: str, *, cut_off: bool = False) -> dict[str, Any]:
    return parse_arguments(raw, tool_name="t", provider="p", model="m", cut_off=cut_off)


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

    with pytest.raises(InvalidToolCallError) as caught:
        parse(part)

    assert (caught.value.tool_name, caught.value.raw_arguments) == ("t", part)
    assert (caught.value.provider, caught.value.model) == ("p", "m")
    assert caught.value.retryable


@pytest.mark.parametrize("raw", ["[]", "1", "null", '"text"', "true"])
def test_what_is_not_an_object_is_refused(raw: str) -> None:
    with pytest.raises(InvalidToolCallError, match="`t` are not a JSON object"):
        parse(raw)


def test_arguments_that_met_the_limit_would_meet_it_again() -> None:
    with pytest.raises(InvalidToolCallError, match="raise `max_output_tokens`") as caught:
        parse('{"path": "/et', cut_off=True)

    assert not caught.value.retryable
