"""A malformed plan is one typed error that names the place of the mistake."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from amplifier_core.validation import MountPlanValidator
from amplifier_foundation.errors import PlanError
from amplifier_foundation.plan_shape import checked_plan

_SESSION = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
_DEEP: Any = json.loads("[" * 300 + "]" * 300)


@pytest.mark.parametrize(
    ("plan", "path"),
    [
        (5, "plan"),
        (None, "plan"),
        ({}, "plan"),
        ({"session": 5}, "session"),
        ({"session": {"orchestrator": "loop-basic"}}, "session"),
        ({"session": {"orchestrator": ["x"], "context": "c"}}, "session.orchestrator"),
        ({**_SESSION, "providers": ["x"]}, "providers[0]"),
        ({**_SESSION, "providers": "x"}, "providers"),
        ({**_SESSION, "tools": [{"module": "t"}, 5]}, "tools[1]"),
        ({**_SESSION, "tools": [{"module": 5}]}, "tools[0].module"),
        ({**_SESSION, "tools": [{"module": "t", "repeatable": "x"}]}, "tools[0].repeatable"),
        ({**_SESSION, "tools": [{"module": "t", "repeatable": [1]}]}, "tools[0].repeatable"),
        ({**_SESSION, "hooks": [{"module": "h", "config": "x"}]}, "hooks[0].config"),
        ({**_SESSION, "hooks": [{"module": "h", "required": "yes"}]}, "hooks[0].required"),
        ({**_SESSION, "context": "x"}, "context"),
        ({**_SESSION, "agents": ["x"]}, "agents"),
        ({**_SESSION, "tools": [{"module": "t", "config": {"x": _DEEP}}]}, "plan"),
    ],
)
def test_a_malformed_plan_names_the_place(plan: Any, path: str) -> None:
    with pytest.raises(PlanError) as caught:
        checked_plan(plan)

    assert caught.value.path == path
    assert caught.value.exit_code == 2
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"providers": None, "tools": {}, "hooks": [], "agents": None},
        {"providers": [{"module": "provider-mock", "config": None}], "anything": "else"},
        {"context": {"config": {"a": 1}}},
        {"tools": [{"module": "t", "repeatable": ["x"]}]},
    ],
)
def test_a_plan_that_sessions_read_comes_back_as_it_is(more: dict[str, Any]) -> None:
    plan = {**_SESSION, **more}

    assert checked_plan(plan) is plan


def test_texts_in_a_plan_are_made_valid() -> None:
    plan = {**_SESSION, "tools": [{"module": "t", "config": {"a": "\ud800\x00"}}]}

    assert checked_plan(plan)["tools"][0]["config"] == {"a": "\ufffd\u2400"}


def _value(chance: random.Random, depth: int = 0) -> Any:
    atoms: list[Any] = [None, True, 0, -1, "", "x", 1.5, "loop-basic", [], {}]
    names = ["module", "config", "source", "instance_id", "required", "session", "orchestrator"]
    if depth > 3 or chance.random() < 0.4:
        return chance.choice(atoms)
    if chance.random() < 0.6:
        return {chance.choice(names): _value(chance, depth + 1) for _ in range(3)}
    return [_value(chance, depth + 1) for _ in range(2)]


def test_the_quick_look_lets_nothing_pass_that_the_validator_refuses() -> None:
    chance = random.Random(7)
    passed = 0
    for _ in range(4_000):
        plan = {**_SESSION}
        for name in chance.sample(["session", "providers", "tools", "hooks", "context"], 2):
            plan[name] = _value(chance)
        try:
            checked_plan(plan)
        except PlanError:
            continue
        passed += 1
        named = ("providers", "tools", "hooks", "context")
        given = {name: each for name, each in plan.items() if each or name not in named}
        wrong = MountPlanValidator(allow_short_form=True).validate(given).errors
        # Two providers of one name are the kernel's to refuse: it does so in a sentence.
        assert {each.name for each in wrong} <= {"providers_instance_id"}

    assert passed > 50
