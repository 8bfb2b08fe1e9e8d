"""What a request asks for, as each generation of models can have it."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_module_provider_gemini.config import GeminiConfig
from amplifier_module_provider_gemini.options import Model, Options

TOOL = ToolSpec(name="look", parameters={"type": "object", "properties": {}})
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
CURRENT, OLDER, PLAIN = "gemini-3.8-flash", "gemini-2.5-pro", "gemini-2.0-flash"


def options(model: str = CURRENT, config: dict[str, Any] | None = None, **fields: Any) -> Options:
    request = ChatRequest(messages=[], **fields)
    return Options(request, GeminiConfig.model_validate(config or {}), Model(model))


@pytest.mark.parametrize(
    ("model", "asked", "expected"),
    [
        (CURRENT, {"reasoning_effort": "low"}, {"includeThoughts": True, "thinkingLevel": "LOW"}),
        (CURRENT, {"extended_thinking": True}, {"includeThoughts": True}),
        ("gemini-flash-latest", {"reasoning_effort": "high"},
         {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        (OLDER, {"reasoning_effort": "medium"}, {"includeThoughts": True, "thinkingBudget": 8_192}),
        (OLDER, {"reasoning_effort": "none"}, {"includeThoughts": False, "thinkingBudget": 0}),
        (OLDER, {"extended_thinking": True}, {"includeThoughts": True, "thinkingBudget": -1}),
        (PLAIN, {"reasoning_effort": "none"}, None),
        (CURRENT, {}, None),
    ],
)  # fmt: skip
def test_each_generation_thinks_in_its_own_terms(
    model: str, asked: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    made = options(model, **asked)

    assert made.wire().get("thinkingConfig") == expected
    assert made.shortfalls == []


@pytest.mark.parametrize(
    ("model", "effort", "level"),
    [(CURRENT, "none", "MINIMAL"), (CURRENT, "xhigh", "HIGH"), (OLDER, "max", 24_576)],
)
def test_an_effort_that_the_model_lacks_becomes_the_nearest_and_says_so(
    model: str, effort: str, level: str | int
) -> None:
    made = options(model, reasoning_effort=effort)

    assert level in made.wire()["thinkingConfig"].values()
    assert [each.requested for each in made.shortfalls] == [f"reasoning effort {effort}"]


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    made = options(PLAIN, extended_thinking=True)

    assert "thinkingConfig" not in made.wire()
    assert len(made.shortfalls) == 1


def test_the_configured_effort_counts_unless_the_request_says_another() -> None:
    config = {"reasoning_effort": "low"}

    assert options(config=config).wire()["thinkingConfig"]["thinkingLevel"] == "LOW"
    asked = options(config=config, reasoning_effort="high").wire()
    assert asked["thinkingConfig"]["thinkingLevel"] == "HIGH"


@pytest.mark.parametrize("given", [SCHEMA, {"name": "place", "schema": SCHEMA, "strict": True}])
def test_a_schema_is_found_also_in_the_wrapper_of_another_vendor(given: dict[str, Any]) -> None:
    made = options(response_format={"type": "json_schema", "json_schema": given}).wire()

    assert made["responseJsonSchema"] == SCHEMA
    assert made["responseMimeType"] == "application/json"


def test_json_without_a_schema_is_a_type_only() -> None:
    made = options(response_format={"type": "json"}).wire()

    assert made["responseMimeType"] == "application/json"
    assert "responseJsonSchema" not in made


def test_older_models_have_tools_or_structured_output_and_say_so() -> None:
    made = options(OLDER, response_format={"type": "json"}, tools=[TOOL])

    assert "responseMimeType" not in made.wire()
    assert len(made.shortfalls) == 1


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "function", "function": {"name": "look"}},
         {"mode": "ANY", "allowedFunctionNames": ["look"]}),
        ({"type": "tool", "name": "look"}, {"mode": "ANY", "allowedFunctionNames": ["look"]}),
        ({"type": "any"}, {"mode": "ANY"}),
        ({"type": "none"}, {"mode": "NONE"}),
        (None, {"mode": "AUTO"}),
    ],
)  # fmt: skip
def test_a_choice_of_tool_is_read_in_every_form(
    choice: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    made = options(tools=[TOOL], tool_choice=choice).wire()

    assert made["toolConfig"] == {"functionCallingConfig": expected}


def test_without_tools_there_is_nothing_to_choose() -> None:
    assert "toolConfig" not in options(tool_choice="required").wire()


def test_the_sdk_may_neither_call_tools_nor_send_more_requests() -> None:
    made = options(tools=[TOOL]).wire()

    assert made["automaticFunctionCalling"] == {"disable": True}
    assert made["automaticContinuation"] is False


@pytest.mark.parametrize(
    ("name", "window", "output"),
    [
        (CURRENT, 1_048_576, 65_536),
        (PLAIN, 1_048_576, 8_192),
        ("gemma-3-27b-it", 131_072, 8_192),
    ],
)
def test_the_limits_of_a_model_follow_from_its_name(name: str, window: int, output: int) -> None:
    model = Model(name)

    assert (model.context_window, model.max_output_tokens) == (window, output)
