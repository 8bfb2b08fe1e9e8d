"""What a tool says of a bad input: short, and without repeating it."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from amplifier_kit.tools import problems_in


class Input(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str


def refused(given: object) -> str:
    with pytest.raises(ValidationError) as raised:
        Input.model_validate(given)
    return problems_in(raised.value)


def test_each_problem_is_told_with_its_place() -> None:
    said = refused({"path": 7, "mode": "w"})

    assert said == "path: Input should be a valid string; mode: Extra inputs are not permitted"


def test_an_input_that_is_no_object_is_called_the_input() -> None:
    assert refused("secret").startswith("input: ")


def test_many_problems_stay_few_and_short() -> None:
    said = refused({"x" * 900 + str(number): 1 for number in range(50)})

    assert said.count("; ") == 4
    assert len(said) <= 5 * 202


def test_the_input_itself_is_not_repeated() -> None:
    assert "hunter2" not in refused({"path": ["hunter2"]})
