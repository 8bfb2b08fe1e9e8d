"""A tool is taken at its word, and for the worst where it says nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.effects import Declaration, declaration_of

WORST = Declaration("unsafe", None, False)


def test_a_tool_that_says_nothing_is_unsafe_and_not_to_be_believed() -> None:
    assert declaration_of(SimpleNamespace()) == WORST


def test_a_tool_is_taken_at_its_word() -> None:
    tool = SimpleNamespace(effect="pure", deadline_seconds=3, output_trusted=True)

    assert declaration_of(tool) == Declaration("pure", 3.0, True)


@pytest.mark.parametrize(
    "claims",
    [
        {"effect": "Pure"},
        {"effect": ["pure"]},
        {"effect": "unsafe"},
        {"deadline_seconds": True},
        {"deadline_seconds": 0},
        {"deadline_seconds": "3"},
        {"deadline_seconds": float("nan")},
        {"output_trusted": "yes"},
        {"output_trusted": 1},
    ],
)
def test_a_claim_that_is_none_of_the_known_ones_counts_as_not_made(claims: dict[str, Any]) -> None:
    assert declaration_of(SimpleNamespace(**claims)) == WORST
