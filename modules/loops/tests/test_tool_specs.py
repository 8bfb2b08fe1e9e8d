"""Tests of how tools are described to the model."""

from __future__ import annotations

from typing import Any

from amplifier_core.testing import MockTool
from amplifier_module_loops.requests import ToolSpecs


class ByMethod:
    """A tool with the schema in the place the seeds name."""

    name = "by_method"
    description = "Tells its schema when asked."

    def get_schema(self) -> dict[str, Any]:
        return {"type": "object", "required": ["x"]}


class Silent:
    name = "silent"
    description = "Has no schema."


def test_tools_are_described_in_their_order_with_the_schema_they_have() -> None:
    tools: dict[str, Any] = {"z": MockTool("z"), "by_method": ByMethod(), "silent": Silent()}

    specs = ToolSpecs().describe(tools)

    assert [spec.name for spec in specs] == ["z", "by_method", "silent"]
    assert [spec.parameters for spec in specs] == [
        {"type": "object", "properties": {}},
        {"type": "object", "required": ["x"]},
        {},
    ]


def test_a_tool_is_described_anew_only_when_it_changed() -> None:
    specs, tool = ToolSpecs(), MockTool("t", description="first")
    tools = {"t": tool}
    (first,) = specs.describe(tools)

    assert specs.describe(tools)[0] is first
    tool.description = "second"
    assert specs.describe(tools)[0].description == "second"
    tool.input_schema = {"type": "object"}
    assert specs.describe(tools)[0].parameters == {"type": "object"}


def test_a_schema_that_is_changed_in_place_is_seen() -> None:
    specs, tool = ToolSpecs(), MockTool("t")
    specs.describe({"t": tool})

    tool.input_schema["required"] = ["x"]

    assert specs.describe({"t": tool})[0].parameters["required"] == ["x"]


def test_tools_of_one_name_under_two_names_are_told_apart() -> None:
    tools: dict[str, Any] = {"a": MockTool("t", description="a"), "b": MockTool("t")}

    specs = ToolSpecs().describe(tools)

    assert [spec.description for spec in specs] == ["a", "Mock tool: t"]
