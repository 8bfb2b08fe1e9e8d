"""Contract of the mount plan validator."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.validation import MountPlanValidationResult, MountPlanValidator
from contract.requirements import requirement

PLAN: dict[str, Any] = {
    "session": {
        "orchestrator": {"module": "loop-basic", "config": {}, "source": "git+https://x"},
        "context": {"module": "context-simple"},
    },
    "providers": [{"module": "provider-mock", "config": {"a": 1}, "instance_id": "one"}],
    "tools": [{"module": "tool-bash"}],
    "hooks": [],
    "agents": {"anything": "goes"},
}


def _failed(plan: Any, **options: Any) -> dict[str, str]:
    result = MountPlanValidator(**options).validate(plan)
    return {check.name: check.message for check in result.errors}


def _with(**session: Any) -> dict[str, Any]:
    return {**PLAN, "session": {**PLAN["session"], **session}}


@requirement("VALID-14")
def test_a_valid_plan_passes() -> None:
    result = MountPlanValidator().validate(PLAN)

    assert isinstance(result, MountPlanValidationResult)
    assert result.passed, result.format_errors()
    assert result.format_errors() == "No errors"
    assert "hooks_empty" in [check.name for check in result.checks]


_BROKEN: list[tuple[Any, str, str]] = [
    ([], "root_type", "must be a dict"),
    ({"tools": []}, "session_present", "session"),
    ({"session": "x"}, "session_type", "must be a dict"),
    ({"session": {"context": {"module": "c"}}}, "session_orchestrator_present", "orchestrator"),
    ({"session": {"orchestrator": {"module": "o"}}}, "session_context_present", "context"),
    ({**PLAN, "tools": {}}, "tools_type", "must be a list"),
    ({**PLAN, "providers": ["x"]}, "providers[0]_type", "must be a dict"),
    ({**PLAN, "tools": [{"module": "t"}, {}]}, "tools[1]_module_required", "missing"),
    ({**PLAN, "tools": [{"module": 3}]}, "tools[0]_module_type", "string"),
    ({**PLAN, "tools": [{"module": ""}]}, "tools[0]_module_empty", "empty"),
    ({**PLAN, "tools": [{"module": "t", "config": []}]}, "tools[0]_config_type", "dict"),
    ({**PLAN, "hooks": [{"module": "h", "source": 3}]}, "hooks[0]_source_type", "string"),
    (_with(context={"config": {}}), "session.context_module_required", "missing"),
]


@requirement("VALID-14")
@pytest.mark.parametrize(("plan", "check", "text"), _BROKEN)
def test_what_is_wrong_is_reported_under_its_path(plan: Any, check: str, text: str) -> None:
    failed = _failed(plan)

    assert check in failed
    assert text in failed[check].lower()


@requirement("VALID-14")
def test_a_missing_module_is_explained() -> None:
    message = _failed({**PLAN, "tools": [{}]})["tools[0]_module_required"].lower()

    assert all(word in message for word in ("missing", "module", "expected"))


@requirement("VALID-15")
def test_the_short_form_is_an_option() -> None:
    short: dict[str, Any] = {
        **_with(orchestrator="loop-basic", context="context-simple"),
        "orchestrator": {"config": {}},
        "context": {"config": {}},
    }

    strict = _failed(short)
    assert "must be a dict" in strict["session.orchestrator_type"]
    assert "session.context_type" in strict
    lenient = MountPlanValidator(allow_short_form=True).validate(short)
    assert lenient.passed, lenient.format_errors()
    assert lenient.warnings == []
    assert "session.context_module_empty" in _failed(_with(context=""), allow_short_form=True) or (
        not MountPlanValidator(allow_short_form=True).validate(_with(context="")).passed
    )


@requirement("VALID-16")
def test_unknown_sections_are_warnings_and_errors_are_numbered() -> None:
    result = MountPlanValidator().validate({**PLAN, "tool": [], "tools": {}, "hooks": {}})

    (warning,) = result.warnings
    assert warning.name == "unknown_sections"
    assert "unknown" in warning.message.lower()
    text = result.format_errors()
    assert text.startswith("Mount Plan Validation Failed:")
    for part in ("1. [tools_type]", "2. [hooks_type]", "Total: 2 error(s)"):
        assert part in text
