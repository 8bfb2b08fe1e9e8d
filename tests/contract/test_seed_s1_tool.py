"""The code blocks of the tool contract and of the README of the contracts, run as written."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest
from pydantic import BaseModel

from amplifier_core import AmplifierSession, ModuleCoordinator, ToolResult, interfaces, models
from amplifier_core.errors import MountError
from amplifier_core.message_models import ToolCall
from amplifier_core.testing import MockCoordinator, MockTool, TestCoordinator
from amplifier_core.validation import ToolValidator
from amplifier_foundation.sources import parse_source
from contract.requirements import REQUIREMENTS, requirement
from contract.requirements._scan import carriers
from contract.seed_modules import part
from contract.seed_runs import (
    PLAN,
    compare_fields,
    compare_protocol,
    entry_points_of,
    events_of,
    module_names,
    run_part,
    run_tests_of,
    session_from_block,
)
from contract.seeds import BLOCKS, run_block
from contract.turns import Turn, calls, loop

SEEDED = Callable[[str], Path]


def test_every_block_of_the_module_contracts_has_one_requirement_that_a_test_carries() -> None:
    numbers = [each.removeprefix("S1:") for each in BLOCKS if each.startswith("S1:")]
    shown = [each.removeprefix("SONE-") for each in REQUIREMENTS if each.startswith("SONE-")]
    carried = {each for carrier in carriers() for each in carrier.ids}

    assert len(numbers) == 73
    assert shown == numbers
    assert [each for each in shown if f"SONE-{each}" not in carried] == []
    for number in numbers:
        source = REQUIREMENTS[f"SONE-{number}"].source
        assert source.startswith(f"S1:{number} ")
        assert BLOCKS[f"S1:{number}"].section.startswith(source.partition(" ")[2])


# --- the README ----------------------------------------------------------------------------------


class WithCategory(MockCoordinator):
    """A coordinator that knows what `category` stands for."""

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Any:
        return super().mount("tools" if mount_point == "category" else mount_point, module, name)


@requirement("SONE-50")
async def test_the_quick_start_is_a_class_a_mount_and_an_entry_point() -> None:
    names = await run_block("S1:50")

    class MyModule(names["MyModule"]):
        def __init__(self, config: dict[str, Any]) -> None:
            self.config = config

    names["MyModule"] = MyModule
    coordinator = WithCategory()

    returned = await names["mount"](coordinator, {"a": 1})

    assert coordinator.get("tools", "my-module") is returned
    assert returned.config == {"a": 1}
    with pytest.raises(MountError, match="category"):
        await names["mount"](MockCoordinator(), {})
    lines = BLOCKS["S1:50"].text.splitlines()[-2:]
    declared = tomllib.loads("\n".join(line.removeprefix("# ") for line in lines))
    assert declared["project"]["entry-points"]["amplifier.modules"] == {
        "my-module": "my_package:mount"
    }


# --- protocol and models -------------------------------------------------------------------------


@requirement("SONE-151")
async def test_our_tool_protocol_is_the_shown_one() -> None:
    given: dict[str, Any] = {"runtime_checkable": runtime_checkable, "Protocol": Protocol}
    shown = (await run_block("S1:151", {**given, "Any": Any, "ToolResult": ToolResult}))["Tool"]

    compare_protocol(shown, interfaces.Tool)

    for tool in (MockTool(), module_names("tool")["MyTool"]({})):
        assert isinstance(tool, shown)
        assert isinstance(tool, interfaces.Tool)
    assert not isinstance(object(), interfaces.Tool)


@requirement("SONE-185", "SONE-196")
@pytest.mark.parametrize(
    ("block", "name", "real"),
    [("S1:185", "ToolCall", ToolCall), ("S1:196", "ToolResult", models.ToolResult)],
)
async def test_our_models_have_the_shown_fields(block: str, name: str, real: Any) -> None:
    shown = (await run_block(block, {"BaseModel": BaseModel, "Any": Any, "__name__": "s1"}))[name]

    compare_fields(shown, real)


# --- entry point ---------------------------------------------------------------------------------


@requirement("SONE-209")
async def test_a_mounted_and_returned_tool_is_one_tool() -> None:
    tool = module_names("tool")["MyTool"]
    given: dict[str, Any] = {
        "ModuleCoordinator": ModuleCoordinator,
        "Tool": interfaces.Tool,
        "Callable": Callable,
    }
    names = await run_block("S1:209", {**given, "MyTool": tool})
    coordinator = MockCoordinator()

    returned = await names["mount"](coordinator, {"a": 1})

    assert isinstance(returned, tool)
    assert coordinator.get("tools") == {"my-tool": returned}
    assert returned.config == {"a": 1}


@requirement("SONE-209", "SONE-226")
async def test_the_entry_point_of_the_tool_leads_a_session_to_it(installed_seed: SEEDED) -> None:
    installed_seed("tool")

    async with AmplifierSession({**PLAN, "tools": [{"module": "my-tool"}]}) as session:
        answer = await session.execute("use my_tool for this")
        states = {each.module_id: each.state for each in session.status.modules}

    assert entry_points_of("S1:226") == {"my-tool": "my_tool:mount"}
    assert states["my-tool"] == "mounted"
    assert answer == "[mock] I called my_tool and got: worked on use my_tool for this"


# --- implementation ------------------------------------------------------------------------------


async def tool_with(*blocks: str, **attributes: Any) -> Any:
    """Return a tool whose members are those of blocks, and attributes of the test."""
    names = await run_block("S1:239")
    for block in blocks:
        found = await run_block(block, {"Any": Any, "ToolResult": ToolResult})
        attributes |= {key: each for key, each in found.items() if callable(each)}
    return type("MyTool", (names["MyTool"],), attributes)()


@requirement("SONE-239")
async def test_name_and_description_are_what_the_validator_wants() -> None:
    tool = await tool_with()

    checks = {check.name: check.passed for check in ToolValidator().inspect(tool)}

    assert (tool.name, tool.description) == (
        "my_tool",
        "Performs specific action with given parameters.",
    )
    assert checks["tool_name"]
    assert checks["tool_description"]


@requirement("SONE-258")
@pytest.mark.parametrize(
    ("given", "read", "error"),
    [
        ({}, "required_param is required", {"message": "required_param is required"}),
        ({"required_param": "x"}, "worked on x", None),
        ({"required_param": "broken"}, "no", {"message": "no", "type": "LookupError"}),
    ],
)
async def test_what_the_shown_execute_returns_is_what_the_model_reads(
    given: dict[str, Any], read: str, error: dict[str, str] | None
) -> None:
    async def work(_self: Any, required_param: str) -> str:
        if required_param == "broken":
            raise LookupError("no")
        return f"worked on {required_param}"

    tool = await tool_with("S1:258", _do_work=work)
    result = await tool.execute(given)
    call = ToolCall(id="call_1", name="my_tool", arguments=given)
    turn = Turn(await loop(), [call], "Done.", tools=[tool])
    await turn.run()

    assert result.success == (error is None)
    assert result.error == error
    assert turn.results == [read]
    assert turn.told("tool:error") == []


@requirement("SONE-288")
async def test_the_schema_of_the_shown_method_is_what_the_model_sees() -> None:
    tool = await tool_with("S1:288", "S1:258")
    turn = Turn(await loop(), "Done.", tools=[tool])

    await turn.run()

    (spec,) = turn.provider.requests[0].tools or []
    assert (spec.name, spec.parameters) == ("my_tool", tool.get_schema())
    assert interfaces.input_schema_of(tool)["required"] == ["required_param"]
    (check,) = [each for each in ToolValidator().inspect(tool) if each.name == "tool_input_schema"]
    assert (check.passed, check.severity) == (False, "warning")


# --- configuration and observability -------------------------------------------------------------


@requirement("SONE-313")
async def test_the_shown_configuration_is_a_section_of_a_plan(
    installed_seed: SEEDED,
) -> None:
    async with await session_from_block("S1:313", installed_seed("tool")) as session:
        tool = session.coordinator.get_mounted("tools")["my-tool"]
        (entry,) = session.config["tools"]

    assert tool.config == {"max_size": 1048576, "allowed_paths": ["/home/user/projects"]}
    source = parse_source(entry["source"])
    assert (source.kind, source.ref) == ("git", "main")


@requirement("SONE-331")
async def test_the_shown_events_of_a_tool_are_collected() -> None:
    assert await events_of("S1:331") == ["my-tool:started", "my-tool:completed", "my-tool:error"]


# --- testing -------------------------------------------------------------------------------------


@requirement("SONE-384")
async def test_the_shown_test_of_a_tool_passes() -> None:
    names: dict[str, Any] = {"pytest": pytest, "MyTool": module_names("tool")["MyTool"]}

    assert await run_tests_of("S1:384", names) == ["test_tool_execution"]

    assert names["TestCoordinator"] is TestCoordinator is MockCoordinator


@requirement("SONE-401")
async def test_the_shown_mock_tool_counts_and_keeps_its_input() -> None:
    # `{...}` is what the tool was called with.
    used = {...}
    names = await run_part(part("S1:401", "from amplifier_core", "# After use"), {})
    turn = Turn(await loop(), calls("test_tool"), "Done.", tools=[names["mock_tool"]])
    await turn.run()
    names["mock_tool"].call_count = 0
    await names["mock_tool"].execute(used)

    await run_part(part("S1:401", "# After use"), names)

    assert names["mock_tool"].description == "Test tool"
    assert turn.results == ["mock result"]
