"""The validator of mount plans, and the checks of results that travel as dicts."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.models import HookResult
from amplifier_core.validation import MountPlanValidationResult, MountPlanValidator
from amplifier_core.validation.proto_schema import (
    VALID_HOOK_ACTIONS,
    validate_hook_result,
    validate_tool_result,
)
from contract.requirements import requirement

SESSION = {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}}


def plan(**sections: Any) -> dict[str, Any]:
    return {"session": SESSION, **sections}


def failures(result: MountPlanValidationResult) -> dict[str, str]:
    return {check.name: check.message for check in result.checks if not check.passed}


def validate(given: Any) -> dict[str, str]:
    return failures(MountPlanValidator().validate(given))


@requirement("VALID-14")
def test_a_plan_with_everything_in_it_passes() -> None:
    spec = {
        "module": "provider-x",
        "source": "git+https://example.test/x",
        "config": {"a": 1},
        "instance_id": "x",
        "required": True,
    }
    result = MountPlanValidator().validate(
        plan(
            providers=[{"module": "provider-x", "config": None}, spec],
            tools=[{"module": "tool-x", "source": {"path": "somewhere"}}],
            hooks=[],
            agents={"anything": 7},
        )
    )

    assert result.passed
    assert result.warnings == []
    assert result.format_errors() == "No errors"
    assert {"providers[1]_module_valid", "hooks_empty"} <= {check.name for check in result.checks}


@requirement("VALID-14")
@pytest.mark.parametrize(
    ("given", "name", "words"),
    [
        ([], "root_type", "must be a dict"),
        ({}, "session_present", "missing"),
        ({"session": "x"}, "session_type", "must be a dict"),
        ({"session": {"context": {"module": "c"}}}, "session_orchestrator_present", "missing"),
        ({"session": {"orchestrator": {"module": "o"}}}, "session_context_present", "missing"),
        (plan(providers={}), "providers_type", "must be a list"),
        (plan(tools=["tool-x"]), "tools[0]_type", "must be a dict"),
        (plan(hooks=[{}]), "hooks[0]_module_required", "missing"),
        (plan(tools=[{"module": 7}]), "tools[0]_module_type", "string"),
        (plan(tools=[{"module": " "}]), "tools[0]_module_empty", "empty"),
        (plan(tools=[{"module": "x", "config": []}]), "tools[0]_config_type", "must be a dict"),
        (plan(tools=[{"module": "x", "source": 7}]), "tools[0]_source_type", "string"),
        (plan(tools=[{"module": "x", "required": "yes"}]), "tools[0]_required_type", "true or"),
        (
            plan(providers=[{"module": "x", "instance_id": 7}]),
            "providers[0]_instance_id_type",
            "string",
        ),
    ],
)
def test_each_broken_part_is_reported_under_its_path(given: Any, name: str, words: str) -> None:
    found = validate(given)

    assert list(found) == [name]
    assert words in found[name]


@requirement("VALID-14")
def test_a_missing_module_says_what_was_expected() -> None:
    text = validate(plan(providers=[{}]))["providers[0]_module_required"]

    assert "missing" in text
    assert "'module'" in text
    assert "expected" in text


def test_two_entries_of_one_provider_must_be_told_apart() -> None:
    twice: list[Any] = [{"module": "provider-x"}, {"module": "provider-x"}]

    assert list(validate(plan(providers=twice))) == ["providers_instance_id"]
    assert list(validate(plan(providers=[*twice, 7]))) == [
        "providers[2]_type",
        "providers_instance_id",
    ]


@pytest.mark.parametrize("first", [{"instance_id": "y"}, {"module": "y"}])
def test_two_providers_may_not_be_mounted_under_one_name(first: dict[str, Any]) -> None:
    same: list[Any] = [{"module": "provider-x", **first}, {"module": "x", "instance_id": "y"}]

    assert "'y'" in validate(plan(providers=same))["providers_instance_id"]


@requirement("VALID-15")
def test_the_short_form_is_accepted_only_when_asked_for() -> None:
    short = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "orchestrator": {"config": {"max_iterations": 3}},
        "context": {},
    }
    strict, lenient = MountPlanValidator(), MountPlanValidator(allow_short_form=True)

    found = failures(strict.validate(short))
    assert list(found) == ["session.orchestrator_type", "session.context_type"]
    assert "must be a dict" in found["session.orchestrator_type"]
    assert failures(lenient.validate(short)) == {}
    empty = {"session": {"orchestrator": "", "context": "context-simple"}}
    assert list(failures(lenient.validate(empty))) == ["session.orchestrator_module_empty"]


@requirement("VALID-15")
def test_the_sections_that_belong_to_the_short_form_are_known_and_looked_at() -> None:
    assert list(validate(plan(orchestrator=7))) == ["orchestrator_type"]
    assert list(validate(plan(context={"config": 7}))) == ["context_config_type"]


@requirement("VALID-16")
def test_unknown_sections_are_a_warning() -> None:
    result = MountPlanValidator().validate(plan(spawn={}, zoo={}))

    (warning,) = result.warnings
    assert (warning.name, result.passed) == ("unknown_sections", True)
    assert "unknown" in warning.message
    assert "spawn, zoo" in warning.message


@requirement("VALID-16")
def test_errors_are_numbered_for_a_person() -> None:
    result = MountPlanValidator().validate(plan(tools=7, hooks=7))

    assert result.format_errors().splitlines() == [
        "Mount Plan Validation Failed:",
        "  1. [tools_type] tools must be a list, got int",
        "  2. [hooks_type] hooks must be a list, got int",
        "Total: 2 error(s)",
    ]
    assert result.summary().startswith("FAILED")


# --- results as dicts ----------------------------------------------------------------------------


@requirement("VALID-22")
def test_a_tool_result_needs_a_boolean_success() -> None:
    assert validate_tool_result({"success": True}) == []
    assert validate_tool_result({}) == ["Missing required field: 'success'"]
    assert validate_tool_result({"success": 1}) == ["Field 'success' must be bool, got int"]


@requirement("VALID-22")
def test_the_words_of_a_hook_result_are_checked() -> None:
    wrong = {
        "action": "explode",
        "context_injection_role": "tool",
        "user_message_level": "loud",
        "approval_default": "maybe",
    }

    assert validate_hook_result({}) == []
    assert validate_hook_result(HookResult().model_dump()) == []
    for (field, value), text in zip(wrong.items(), validate_hook_result(wrong), strict=True):
        assert text.startswith(f"Invalid {field} '{value}'")


def test_the_words_are_those_of_the_model() -> None:
    schema = HookResult.model_json_schema()["properties"]

    assert frozenset(schema["action"]["enum"]) == VALID_HOOK_ACTIONS
