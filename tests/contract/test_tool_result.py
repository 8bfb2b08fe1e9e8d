"""Contract of the tool result: what a tool answers and what the model reads of it."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from amplifier_core import AmplifierSession, ImageBlock, TextBlock, ToolResult
from contract.installer import Installer
from contract.requirements import requirement

PNG: dict[str, Any] = {
    "type": "base64",
    "media_type": "image/png",
    "data": base64.b64encode(b"not sniffed").decode(),
}


@requirement("MODEL-1")
def test_a_tool_result_succeeds_unless_it_says_otherwise() -> None:
    unknown: dict[str, Any] = {"is_errors": True}
    expected = {"success": True, "output": None, "error": None, "content": None}

    result = ToolResult(**unknown)

    assert {name: getattr(result, name) for name in expected} == expected
    assert not hasattr(result, "is_errors")


@requirement("MODEL-2")
@pytest.mark.parametrize("flag", [True, False])
def test_the_seeds_error_flag_means_failure(flag: bool) -> None:
    fields: dict[str, Any] = {"is_error": flag, "output": "User denied"}

    assert ToolResult(**fields).success is not flag


@requirement("MODEL-3")
def test_a_failure_without_output_speaks_through_its_error() -> None:
    failed = ToolResult(success=False, error={"message": "required_param is required"})

    assert failed.output == "required_param is required"
    assert ToolResult(success=False, error={"code": 1}).output is None
    assert ToolResult(success=False, output="own", error={"message": "m"}).output == "own"
    assert ToolResult(success=True, error={"message": "m"}).output is None


@requirement("MODEL-4")
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult(output={"a": 1}), "{'a': 1}"),
        (ToolResult(), "Success"),
        (ToolResult(output=""), "Success"),
        (ToolResult(success=False, error={"message": "boom"}), "Error: boom"),
        (ToolResult(success=False, error={"code": 1}), "Error: Unknown error"),
        (ToolResult(success=False), "Failed"),
    ],
)
def test_a_tool_result_reads_as_text(result: ToolResult, text: str) -> None:
    assert str(result) == text


@requirement("MODEL-5", "MODEL-6")
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult(output={"stdout": "héllo", "n": None}), '{"stdout": "h\\u00e9llo", "n": null}'),
        (ToolResult(output=[1, {"cost": Decimal("1.50")}]), '[1, {"cost": "1.50"}]'),
        (ToolResult(output=42), "42"),
        (ToolResult(output=""), ""),
        (ToolResult(success=False, output={"rc": 1}, error={"message": "x"}), '{"rc": 1}'),
        (ToolResult(), "Success"),
        (ToolResult(success=False, error={"code": 1}), "Error: Unknown error"),
        (ToolResult(success=False), "Error: Failed"),
    ],
)
def test_what_the_model_gets_to_read_of_a_result(result: ToolResult, text: str) -> None:
    assert result.get_serialized_output() == text


@requirement("MODEL-6")
def test_output_json_cannot_express_is_refused() -> None:
    with pytest.raises(TypeError, match="is not JSON serializable"):
        ToolResult(output={"x": object()}).get_serialized_output()


@requirement("MODEL-7")
def test_serialized_output_carries_no_control_characters() -> None:
    noisy = "".join(map(chr, range(0xA1))) + "\ud800\udfff" + "é"

    clean = ToolResult(output=noisy).get_serialized_output()

    printable = "".join(map(chr, range(0x20, 0x7F)))
    assert clean == "\t\n\r" + printable + "\xa0é"


@requirement("MODEL-8")
def test_rich_content_is_reduced_to_text_and_images() -> None:
    content: list[Any] = [
        TextBlock(text="caption", visibility="user"),
        {"type": "text", "text": "more", "extra": 1},
        ImageBlock(source=PNG),
        {"type": "image", "source": {**PNG, "media_type": "image/anything", "extra": 1}},
    ]

    result = ToolResult(output="x", content=content)

    assert result.model_dump(exclude_none=True)["content"] == [
        {"type": "text", "text": "caption"},
        {"type": "text", "text": "more"},
        {"type": "image", "source": PNG},
        {"type": "image", "source": {**PNG, "media_type": "image/anything"}},
    ]
    assert ToolResult(content=[]).success


@requirement("MODEL-9")
@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "video", "source": PNG}, "invalid tool result content"),
        ("text", "invalid tool result content"),
        (
            {"type": "image", "source": {**PNG, "media_type": "text/html"}},
            "invalid tool result image media type",
        ),
        (
            {"type": "image", "source": {**PNG, "data": "not base64!"}},
            "invalid tool result image data",
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "x"}},
            "invalid tool result image source",
        ),
    ],
)
def test_content_of_another_kind_is_refused(block: Any, text: str) -> None:
    with pytest.raises(ValidationError, match=text) as caught:
        ToolResult(content=[block])

    assert "not base64!" not in str(caught.value)


@requirement("MODEL-10")
def test_a_result_stays_valid_however_it_is_changed() -> None:
    result = ToolResult(output="x", content=[])
    assert "content" not in result.model_dump()
    assert "content" not in json.loads(ToolResult(output="x").model_dump_json())

    with pytest.raises(ValidationError):
        result.content = ["nonsense"]  # pyright: ignore[reportAttributeAccessIssue] - on purpose
    with pytest.raises(ValidationError):
        result.model_copy(update={"content": ["nonsense"]})
    assert result.model_copy(update={"output": "y"}).output == "y"


@requirement("MODEL-11")
def test_hooks_see_a_result_without_its_images() -> None:
    source: Any = [{"type": "text", "text": "caption"}, {"type": "image", "source": PNG}]
    result = ToolResult(output={"n": 1}, content=source)

    assert result.safe_hook_presentation() == {
        "success": True,
        "output": {"n": 1},
        "error": None,
        "content": [
            {"type": "text", "text": "caption"},
            {
                "type": "text",
                "text": "[Image omitted from tool event; original retained for model request "
                "if unmodified.]",
            },
        ],
    }
    assert "content" not in ToolResult(output="x").safe_hook_presentation()


@requirement("TOOL-6")
async def test_of_two_tools_with_one_name_the_model_is_offered_the_last(
    installed: Installer,
) -> None:
    class Named:
        name = "same"
        input_schema: dict[str, Any] = {"type": "object", "properties": {}}

        def __init__(self, description: str) -> None:
            self.description = description

        async def execute(self, input: dict[str, Any]) -> ToolResult:
            return ToolResult(output=self.description)

    plan = installed.basics(
        tools=[{"module": "tool-one"}, {"module": "tool-two"}, {"module": "tool-three"}]
    )
    installed.object("tool-one", "tools", Named("first"))
    installed.object("tool-two", "tools", Named("second"))
    installed.object("tool-three", "tools", Named("given another name"), "other")
    async with AmplifierSession(plan) as session:
        await session.execute("hi")
        by_name = session.coordinator.get("tools")

    (handed,) = installed.loop.handed
    assert handed["tools"] is by_name
    assert {name: tool.description for name, tool in by_name.items()} == {
        "same": "second",
        "other": "given another name",
    }
    assert (await by_name["same"].execute({})).output == "second"
