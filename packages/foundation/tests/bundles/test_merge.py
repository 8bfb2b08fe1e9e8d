"""Merging: the rules of the table in the README of bundles."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.config.modules import merge, merge_modules
from contract.requirements import requirement

scalars = st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=1), inner),
    max_leaves=8,
)
mappings = st.dictionaries(st.text("xyz", max_size=1), values, max_size=3)


def test_the_later_wins_and_keeps_what_it_does_not_mention() -> None:
    earlier = {"a": 1, "b": {"c": 1, "d": 2}, "l": [1, {"x": 1}], "k": [1]}
    later = {"b": {"c": 3}, "l": [{"x": 1}, True, "1"], "k": None}

    assert merge(earlier, later) == {
        "a": 1,
        "b": {"c": 3, "d": 2},
        "l": [1, {"x": 1}, True, "1"],
        "k": None,
    }


@given(mappings, mappings)
def test_merging_changes_neither_and_again_changes_nothing(
    earlier: dict[str, Any], later: dict[str, Any]
) -> None:
    before = repr((earlier, later))

    merged = merge(earlier, later)

    assert repr((earlier, later)) == before
    assert merged.keys() == earlier.keys() | later.keys()
    assert repr(merge(merged, {})) == repr(merged)


@given(mappings, mappings, mappings)
def test_it_does_not_matter_which_two_are_merged_first(
    one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    assert merge(merge(one, two), three).keys() == merge(one, merge(two, three)).keys()


@requirement("PLAN-7")
def test_modules_are_merged_by_instance_then_by_id() -> None:
    earlier = [
        {"module": "p", "source": "a", "config": {"x": 1, "y": 1}},
        {"module": "p", "instance_id": "second", "config": {"x": 2}},
    ]
    later = [
        {"module": "q"},
        {"module": "p", "instance_id": "second", "config": {"z": 3}},
        {"module": "p", "config": {"y": 2}},
    ]

    assert merge_modules(earlier, later) == [
        {"module": "p", "source": "a", "config": {"x": 1, "y": 2}},
        {"module": "p", "instance_id": "second", "config": {"x": 2, "z": 3}},
        {"module": "q"},
    ]
