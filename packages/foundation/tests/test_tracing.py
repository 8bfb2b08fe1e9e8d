"""The ids of child sessions that published modules ask for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.tracing import generate_sub_session_id
from amplifier_kit.session_folder import folder_name

SHAPE = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})_([a-z0-9-]+)")


@given(name=st.text(max_size=60) | st.none())
def test_an_id_is_the_name_of_its_own_folder_whatever_the_agent_is_called(name: str | None) -> None:
    made = generate_sub_session_id(name)

    assert SHAPE.fullmatch(made)
    assert folder_name(made) == made


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("Zen Architect", "zen-architect"), ("a:b/c", "a-b-c"), ("--", "agent"), (None, "agent")],
)
def test_the_agent_is_named_at_the_end(name: str | None, suffix: str) -> None:
    assert generate_sub_session_id(name).endswith(f"_{suffix}")


def test_a_child_of_a_child_begins_with_the_span_of_its_parent() -> None:
    parent = generate_sub_session_id("planner")
    child = generate_sub_session_id("worker", parent_session_id=parent)

    assert parent.startswith("0" * 16)
    assert child[:16] == parent[17:33]
    assert child[17:33] != parent[17:33]


def test_a_parent_without_a_span_is_found_by_its_trace() -> None:
    trace = "aaaaaaaa" + "1234567890abcdef" + "bbbbbbbb"

    assert generate_sub_session_id(None, "plain-id", trace).startswith("1234567890abcdef-")
    assert generate_sub_session_id(None, "plain-id", trace[:-1]).startswith("0" * 16)


def test_no_two_ids_are_the_same() -> None:
    assert len({generate_sub_session_id("x") for _ in range(200)}) == 200
