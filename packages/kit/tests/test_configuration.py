"""Reading a module's configuration: what is wrong is named, with what was probably meant."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from amplifier_core.errors import ModuleValidationError
from amplifier_kit.configuration import read_config


class Rule(BaseModel, extra="forbid"):
    action: str


class Config(BaseModel, extra="forbid"):
    default: str = "ask"
    rules: list[Rule] = []
    named: dict[str, Rule] | None = None
    seconds: float = Field(default=1.0, gt=0)


def refusal(given: Any) -> str:
    with pytest.raises(ModuleValidationError) as refused:
        read_config(Config, given, "hooks-x")
    assert refused.value.module_id == "hooks-x"
    assert refused.value.__cause__ is None
    return str(refused.value)


def test_nothing_is_the_default_configuration() -> None:
    assert read_config(Config, None, "hooks-x") == Config()
    assert read_config(Config, {"default": "deny"}, "hooks-x").default == "deny"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"defualt": "deny"}, "`defualt` is not a valid key. Did you mean `default`?"),
        ({"zzz": 1}, "`zzz` is not a valid key. Valid are: default, rules, named, seconds."),
        (
            {"rules": [{"action": "a", "actoin": "b"}]},
            "`actoin` in `rules[0]` is not a valid key. Did you mean `action`?",
        ),
        (
            {"named": {"x": {"action": "a", "actoin": "b"}}},
            "`actoin` in `named.x` is not a valid key. Did you mean `action`?",
        ),
        ({"seconds": 0}, "`seconds`: Input should be greater than 0."),
        ([], "`config`: Input should be a valid dictionary"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_told_in_one_line(given: Any, told: str) -> None:
    message = refusal(given)

    assert told in message
    assert "\n" not in message


def test_a_refusal_never_shows_a_value_and_is_short() -> None:
    message = refusal({f"key{number}": "sk-secret" for number in range(50)})

    assert "sk-secret" not in message
    assert "And 47 more." in message
