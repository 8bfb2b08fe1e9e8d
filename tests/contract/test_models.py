"""Contract of the data models that modules exchange."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from amplifier_core import (
    ApprovalRequest,
    ApprovalResponse,
    ConfigField,
    ContextInjection,
    HookResult,
    ModelInfo,
    ModuleInfo,
    Pricing,
    ProviderInfo,
    SessionStatus,
    ToolResult,
)
from amplifier_core.models import UserMessage
from contract.requirements import requirement

CURRENCY = "currency must be a 3-letter ISO 4217 code"


def _fields(model: BaseModel) -> dict[str, Any]:
    """Give the declared fields with their values, in order."""
    return {name: getattr(model, name) for name in type(model).model_fields}


@requirement("MODEL-12", "MODEL-14")
def test_a_hook_result_has_the_published_defaults() -> None:
    unknown: dict[str, Any] = {"unknown": 1}
    expected: dict[str, Any] = {
        "action": "continue",
        "data": None,
        "reason": None,
        "context_injection": None,
        "context_injection_role": "system",
        "ephemeral": False,
        "approval_prompt": None,
        "approval_options": None,
        "approval_timeout": 300.0,
        "approval_default": "deny",
        "suppress_output": False,
        "user_message": None,
        "user_message_level": "info",
        "user_message_source": None,
        "append_to_last_tool_result": False,
        "context_injections": [],
    }

    result = HookResult(**unknown)

    assert {name: getattr(result, name) for name in expected} == expected
    assert "unknown" not in result.model_dump()


@requirement("MODEL-13")
@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("action", "continue deny modify inject_context ask_user"),
        ("context_injection_role", "system user assistant"),
        ("approval_default", "allow deny"),
        ("user_message_level", "info warning error"),
    ],
)
def test_a_hook_result_takes_exactly_the_published_words(field: str, words: str) -> None:
    for word in words.split():
        given: dict[str, Any] = {field: word}
        assert getattr(HookResult.model_validate(given), field) == word
        assert getattr(HookResult(**given), field) == word
        for other in (word.upper(), f" {word}", f"{word}s", word[:-1]):
            _refuses(HookResult, field, other)
    for other in ("bogus", "", None, 1):
        _refuses(HookResult, field, other)
    assert HookResult.model_json_schema()["properties"][field]["enum"] == words.split()


@requirement("MODEL-13")
@pytest.mark.parametrize(
    ("model", "required", "field", "words"),
    [
        (ContextInjection, "content", "role", "system user assistant"),
        (UserMessage, "text", "level", "info warning error"),
    ],
)
def test_an_injection_and_a_message_take_exactly_the_published_words(
    model: type[BaseModel], required: str, field: str, words: str
) -> None:
    for word in words.split():
        assert getattr(model.model_validate({required: "x", field: word}), field) == word
    assert model.model_json_schema()["properties"][field]["enum"] == words.split()
    with pytest.raises(ValidationError):
        model.model_validate({required: "x", field: "tool"})


def _refuses(model: type[BaseModel], field: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        model.model_validate({field: value})
    with pytest.raises(ValidationError):
        model(**{field: value})


@requirement("MODEL-15")
def test_an_injection_needs_its_content_only() -> None:
    assert _fields(ContextInjection(content="text")) == {
        "content": "text",
        "role": "system",
        "ephemeral": False,
        "append_to_last_tool_result": False,
        "hook_name": "unknown",
        "event": "",
    }
    with pytest.raises(ValidationError):
        ContextInjection.model_validate({})


@requirement("MODEL-16")
def test_prices_need_both_directions_and_a_currency_code() -> None:
    price = Pricing(input_per_million=3.0, output_per_million=15.0)

    assert price.currency == "USD"
    assert (price.cache_read_per_million, price.cache_write_per_million) == (None, None)
    for currency in ("usd", "US", "EURO"):
        with pytest.raises(ValidationError, match=CURRENCY):
            Pricing(input_per_million=1, output_per_million=1, currency=currency)
    with pytest.raises(ValidationError):
        Pricing.model_validate({"input_per_million": 1})


_REQUIRED: list[tuple[type[BaseModel], dict[str, Any], dict[str, Any]]] = [
    (
        ModelInfo,
        {"id": "m", "display_name": "M", "context_window": 8, "max_output_tokens": 4},
        {"capabilities": [], "defaults": {}, "pricing": None},
    ),
    (
        ConfigField,
        {"id": "key", "display_name": "Key", "prompt": "Key?"},
        {
            "field_type": "text",
            "env_var": None,
            "choices": None,
            "required": True,
            "default": None,
            "show_when": None,
            "requires_model": False,
        },
    ),
    (
        ProviderInfo,
        {"id": "p", "display_name": "P"},
        {"credential_env_vars": [], "capabilities": [], "defaults": {}, "config_fields": []},
    ),
    (
        ModuleInfo,
        {
            "id": "tool-x",
            "name": "Tool X",
            "version": "1.0.0",
            "type": "tool",
            "mount_point": "tools",
            "description": "d",
        },
        {"config_schema": None},
    ),
    (
        ApprovalRequest,
        {"tool_name": "bash", "action": "run", "risk_level": "high"},
        {"details": {}, "timeout": None},
    ),
    (ApprovalResponse, {"approved": True}, {"reason": None, "remember": False}),
]


@requirement("MODEL-17", "MODEL-18", "MODEL-19", "MODEL-20", "MODEL-24", "MODEL-25", "MODEL-26")
@pytest.mark.parametrize(
    ("model", "required", "defaults"), _REQUIRED, ids=[model.__name__ for model, *_ in _REQUIRED]
)
def test_required_fields_defaults_and_round_trip(
    model: type[BaseModel], required: dict[str, Any], defaults: dict[str, Any]
) -> None:
    made = model(**required)

    assert {name: getattr(made, name) for name in defaults} == defaults
    assert model.model_validate_json(made.model_dump_json()) == made
    for name in required:
        with pytest.raises(ValidationError):
            model.model_validate({key: required[key] for key in required if key != name})


@requirement("MODEL-18", "MODEL-20")
@pytest.mark.parametrize(
    ("model", "field", "words"),
    [
        (ConfigField, "field_type", "text secret choice boolean"),
        (ModuleInfo, "type", "orchestrator provider tool context hook resolver"),
        (SessionStatus, "status", "running completed failed cancelled"),
    ],
)
def test_kinds_are_fixed_words(model: type[BaseModel], field: str, words: str) -> None:
    base: dict[str, Any] = {"session_id": "s"}
    for known, required, _ in _REQUIRED:
        base |= required if known is model else base
    for word in words.split():
        assert getattr(model(**{**base, field: word}), field) == word
    with pytest.raises(ValidationError):
        model(**{**base, field: "bogus"})


@requirement("MODEL-21")
def test_a_session_starts_running_now_with_nothing_counted() -> None:
    before = datetime.now().astimezone()
    status = SessionStatus(session_id="s")

    assert status.status == "running"
    assert before <= status.started_at.astimezone() <= datetime.now().astimezone()
    assert (status.ended_at, status.cost_usd) == (None, None)
    assert (status.last_activity, status.last_error) == (None, None)
    counters = (
        "total_messages tool_invocations tool_successes tool_failures total_input_tokens "
        "total_output_tokens"
    )
    assert [getattr(status, counter) for counter in counters.split()] == [0] * 6


@requirement("MODEL-22", "MODEL-23")
def test_money_is_never_a_float() -> None:
    with pytest.raises(ValidationError, match="cost_usd must be Decimal, not float"):
        SessionStatus.model_validate({"session_id": "s", "cost_usd": 0.1})
    for given in (5, "5", Decimal("5")):
        status = SessionStatus.model_validate({"session_id": "s", "cost_usd": given})
        assert status.cost_usd == Decimal("5")
        assert status.model_dump()["cost_usd"] == "5"
        assert status.to_dict()["cost_usd"] == "5"
    as_dict = SessionStatus(session_id="s").to_dict()
    json.dumps(as_dict)
    assert None not in as_dict.values()
    assert '"type": "string"' in json.dumps(
        SessionStatus.model_json_schema()["properties"]["cost_usd"]
    )


@requirement("MODEL-24")
@pytest.mark.parametrize("timeout", [0, -1.0])
def test_an_approval_cannot_wait_no_time(timeout: float) -> None:
    with pytest.raises(ValueError, match="Timeout must be positive or None"):
        ApprovalRequest(tool_name="t", action="a", risk_level="low", timeout=timeout)


@requirement("MODEL-26")
@pytest.mark.parametrize(
    "value",
    [
        ToolResult(success=False, output={"a": [1]}, error={"message": "m"}),
        HookResult(
            action="inject_context",
            context_injection="x",
            context_injections=[ContextInjection(content="x")],
        ),
        Pricing(input_per_million=1, output_per_million=2),
        SessionStatus(session_id="s", cost_usd=Decimal("1.5"), last_error={"message": "m"}),
    ],
)
def test_a_model_is_the_same_after_a_trip_through_json(value: BaseModel) -> None:
    assert type(value).model_validate_json(value.model_dump_json()) == value
