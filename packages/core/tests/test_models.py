"""Tests of tool results and of the descriptions that modules give of themselves."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from amplifier_core import models
from amplifier_core.message_models import ImageBlock, TextBlock
from amplifier_core.models import (
    ConfigField,
    ContextInjection,
    ModelInfo,
    ModuleInfo,
    ModuleStatus,
    Pricing,
    ProviderInfo,
    SessionStatus,
    ToolResult,
    UserMessage,
    json_default,
    sanitize_for_llm,
)

PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
IMAGE: dict[str, Any] = {"type": "image", "source": PNG}


def image(**changes: object) -> dict[str, Any]:
    """Return an image block whose source differs in `changes`."""
    return {"type": "image", "source": {**PNG, **changes}}


# --- text for the model -------------------------------------------------------------------------


def test_control_characters_and_lone_surrogates_never_reach_the_model() -> None:
    dirty = "".join(map(chr, range(0xA0))) + "\ud800é\udfff"

    assert sanitize_for_llm(dirty) == "\t\n\r" + "".join(map(chr, range(0x20, 0x7F))) + "é"


def test_decimals_become_text_in_json_and_nothing_else_does() -> None:
    assert json_default(Decimal("1.10")) == "1.10"
    with pytest.raises(TypeError, match="Object of type set is not JSON serializable"):
        json_default({1})


def test_published_code_finds_the_helpers_under_their_old_names() -> None:
    assert models._sanitize_for_llm is sanitize_for_llm
    assert models._json_default is json_default


# --- tool results -------------------------------------------------------------------------------


def test_a_tool_result_is_a_success_unless_told() -> None:
    assert ToolResult().model_dump() == {"success": True, "output": None, "error": None}


def test_a_failure_without_output_shows_its_message() -> None:
    assert ToolResult(success=False, error={"message": "boom"}).output == "boom"


@pytest.mark.parametrize(
    "fields",
    [
        {"success": False, "error": {"message": "boom"}, "output": {"stderr": "x"}},
        {"success": True, "error": {"message": "boom"}, "output": "fine"},
    ],
)
def test_an_output_that_is_there_is_kept(fields: dict[str, Any]) -> None:
    assert ToolResult(**fields).output == fields["output"]


@pytest.mark.parametrize("error", [None, {}, {"code": 3}, {"message": ""}])
def test_a_failure_without_a_message_has_no_output(error: dict[str, Any] | None) -> None:
    assert ToolResult(success=False, error=error).output is None


@pytest.mark.parametrize(
    ("fields", "success"),
    [
        ({"is_error": True}, False),
        ({"is_error": False}, True),
        ({"is_error": True, "success": True}, True),
    ],
)
def test_is_error_means_failure_unless_success_is_given(
    fields: dict[str, Any], success: bool
) -> None:
    assert ToolResult(**fields).success is success
    assert ToolResult.model_validate(fields).success is success
    assert "is_error" not in ToolResult(**fields).model_dump()


def test_a_stored_tool_result_is_read_by_the_same_rules() -> None:
    class Record(BaseModel):
        result: ToolResult

    record = Record.model_validate_json(
        '{"result": {"is_error": true, "error": {"message": "boom"}, "unknown": 1}}'
    )

    assert record.result == ToolResult(success=False, error={"message": "boom"})
    assert Record.model_validate({"result": record.result}).result is record.result


def test_a_tool_result_is_not_made_of_something_that_has_no_fields() -> None:
    with pytest.raises(ValidationError):
        ToolResult.model_validate("is_error")


@pytest.mark.parametrize("wrong", [{"success": "perhaps"}, {"error": "boom"}, {"content": "hi"}])
def test_a_tool_result_checks_its_types_and_keeps_its_input_to_itself(
    wrong: dict[str, Any],
) -> None:
    with pytest.raises(ValidationError) as caught:
        ToolResult(**wrong)

    assert "input_value" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "text", "serialized"),
    [
        ({"output": "fine"}, "fine", "fine"),
        ({}, "Success", "Success"),
        ({"output": 0}, "Success", "0"),
        ({"output": {"é": Decimal("1.5")}}, "{'é': Decimal('1.5')}", '{"\\u00e9": "1.5"}'),
        ({"output": [1, 2]}, "[1, 2]", "[1, 2]"),
        ({"output": "a\x00b"}, "a\x00b", "ab"),
        ({"success": False, "error": {"message": "boom"}}, "Error: boom", "boom"),
        ({"success": False, "error": {"code": 3}}, "Error: Unknown error", "Error: Unknown error"),
        ({"success": False}, "Failed", "Error: Failed"),
        ({"success": False, "output": {"code": 1}}, "Failed", '{"code": 1}'),
    ],
)
def test_a_tool_result_reads_well_for_people_and_for_models(
    fields: dict[str, Any], text: str, serialized: str
) -> None:
    result = ToolResult(**fields)

    assert str(result) == text
    assert result.get_serialized_output() == serialized


def test_an_output_that_is_no_json_is_refused_when_it_is_serialized() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        ToolResult(output={"a": object()}).get_serialized_output()


def test_rich_output_keeps_texts_and_images_and_nothing_beside_them() -> None:
    result = ToolResult.model_validate(
        {
            "content": [
                {"type": "text", "text": "hi", "visibility": "user", "cache_control": {}},
                {**image(extra=1), "detail": "high"},
                TextBlock(text="there", visibility="internal"),
                ImageBlock(source=PNG),
            ]
        }
    )

    assert result.model_dump(exclude_none=True)["content"] == [
        {"type": "text", "text": "hi"},
        IMAGE,
        {"type": "text", "text": "there"},
        IMAGE,
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hi", "invalid tool result content"),
        (["hi"], "invalid tool result content"),
        ([{"type": "text"}], "invalid tool result content"),
        ([{"type": "video"}], "invalid tool result content"),
        ([{"type": "image"}], "invalid tool result image source"),
        ([image(type="url")], "invalid tool result image source"),
        ([image(media_type="text/plain")], "invalid tool result image media type"),
        ([image(media_type=None)], "invalid tool result image media type"),
        ([image(data="not base64")], "invalid tool result image data"),
        ([image(data="")], "invalid tool result image data"),
        ([image(data=7)], "invalid tool result image data"),
    ],
)
def test_rich_output_that_no_model_can_read_is_refused(content: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(f"{message} [type")):
        ToolResult(content=content)


@pytest.mark.parametrize("empty", [None, []])
def test_empty_rich_output_is_left_out(empty: list[Any] | None) -> None:
    result = ToolResult(content=empty)

    assert "content" not in result.model_dump()
    assert "content" not in result.model_dump_json()


def test_an_assignment_is_validated() -> None:
    result = ToolResult(output="x")

    with pytest.raises(ValidationError):
        result.success = "perhaps"  # pyright: ignore[reportAttributeAccessIssue] - the point
    result.content = [TextBlock(text="hi", visibility="user")]

    assert result.content == [TextBlock(text="hi")]


def test_a_copy_with_changes_is_validated() -> None:
    result = ToolResult(output={"a": [1]})

    copied = result.model_copy(update={"success": False, "nonsense": 1})

    assert (copied.success, copied.output) == (False, {"a": [1]})
    assert copied.model_fields_set == {"output", "success"}
    assert result.success
    with pytest.raises(ValidationError):
        result.model_copy(update={"success": "perhaps"})


def test_a_deep_copy_shares_nothing() -> None:
    result = ToolResult(output={"a": [1]})

    assert result.model_copy().output is result.output
    assert result.model_copy(deep=True).output is not result.output
    assert result.model_copy(deep=True, update={"success": False}).output is not result.output


def test_hooks_see_a_sentence_instead_of_a_picture() -> None:
    result = ToolResult.model_validate(
        {"output": "o", "content": [IMAGE, {"type": "text", "text": "hi"}]}
    )

    assert result.safe_hook_presentation() == {
        "success": True,
        "output": "o",
        "error": None,
        "content": [
            {
                "type": "text",
                "text": "[Image omitted from tool event; "
                "original retained for model request if unmodified.]",
            },
            {"type": "text", "text": "hi"},
        ],
    }
    assert "content" not in ToolResult().safe_hook_presentation()


# --- what hooks add -----------------------------------------------------------------------------


def test_an_injection_is_a_lasting_system_message_unless_told() -> None:
    assert ContextInjection(content="x").model_dump() == {
        "content": "x",
        "role": "system",
        "ephemeral": False,
        "append_to_last_tool_result": False,
        "hook_name": "unknown",
        "event": "",
    }


def test_a_user_message_is_information_unless_told() -> None:
    assert UserMessage(text="x").model_dump() == {"text": "x", "level": "info", "source": None}


# --- descriptions -------------------------------------------------------------------------------


@pytest.mark.parametrize("currency", ["usd", "DOLLAR", "US", "U$D", "USD\n"])
def test_a_currency_has_three_capital_letters(currency: str) -> None:
    with pytest.raises(ValidationError, match="currency must be a 3-letter ISO 4217 code"):
        Pricing(input_per_million=1, output_per_million=2, currency=currency)


def test_prices_are_in_dollars_unless_told() -> None:
    assert Pricing(input_per_million=1, output_per_million=2).currency == "USD"
    assert Pricing(input_per_million=1, output_per_million=2, currency="EUR").currency == "EUR"


def test_a_model_keeps_what_its_provider_adds() -> None:
    info = ModelInfo.model_validate(
        {
            "id": "m",
            "display_name": "M",
            "context_window": 1000,
            "max_output_tokens": 100,
            "metadata": {"tier": 1},
        }
    )

    assert info.model_dump()["metadata"] == {"tier": 1}
    assert (info.capabilities, info.defaults, info.pricing) == ([], {}, None)


def test_descriptions_have_quiet_defaults_of_their_own() -> None:
    field = ConfigField(id="key", display_name="Key", prompt="Your key?")
    first = ProviderInfo(id="p", display_name="P")
    second = ProviderInfo(id="p", display_name="P", config_fields=[field])
    first.capabilities.append("tools")

    assert (field.field_type, field.required, field.requires_model) == ("text", True, False)
    assert second.capabilities == []
    assert first.config_fields == []


def test_a_module_has_a_known_type() -> None:
    fields = {"id": "x", "name": "X", "version": "1", "mount_point": "tools", "description": ""}

    assert ModuleInfo.model_validate({**fields, "type": "tool"}).config_schema is None
    with pytest.raises(ValidationError):
        ModuleInfo.model_validate({**fields, "type": "gadget"})


# --- session status -----------------------------------------------------------------------------


def test_a_session_starts_running_and_now_in_utc() -> None:
    status = SessionStatus(session_id="s")

    assert status.status == "running"
    assert status.started_at.tzinfo is UTC
    assert abs(datetime.now(UTC) - status.started_at) < timedelta(minutes=1)
    assert status.modules == []


def test_a_status_becomes_plain_data_without_what_is_unknown() -> None:
    status = SessionStatus(
        session_id="s",
        started_at=datetime(2026, 1, 2, tzinfo=UTC),
        cost_usd=Decimal("0.30"),
        modules=[ModuleStatus(module_id="tool-x", module_type="tool", state="failed", error="no")],
    )

    assert status.to_dict() == {
        "session_id": "s",
        "started_at": "2026-01-02T00:00:00Z",
        "status": "running",
        "total_messages": 0,
        "tool_invocations": 0,
        "tool_successes": 0,
        "tool_failures": 0,
        "total_input_tokens": 0,
        "total_output_tokens": 0,
        "cost_usd": "0.30",
        "modules": [
            {
                "module_id": "tool-x",
                "module_type": "tool",
                "state": "failed",
                "error": "no",
                "required": False,
            }
        ],
    }


def test_a_status_takes_no_float_for_money_and_says_so_in_its_schema() -> None:
    with pytest.raises(ValidationError, match="cost_usd must be Decimal, not float"):
        SessionStatus.model_validate({"session_id": "s", "cost_usd": 0.1})

    schema = SessionStatus.model_json_schema()
    assert {"type": "string"} in schema["properties"]["cost_usd"]["anyOf"]


def test_rich_output_is_dumped_without_a_visibility() -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    result = ToolResult.model_validate(
        {"content": [{"type": "text", "text": "hi"}, {"type": "image", "source": picture}]}
    )

    expected = [{"type": "text", "text": "hi"}, {"type": "image", "source": picture}]
    assert result.model_dump()["content"] == expected
    assert json.loads(result.model_dump_json())["content"] == expected
