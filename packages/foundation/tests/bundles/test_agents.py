"""Agents: from their files, or in place, to the overlays of a mount plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_foundation.bundles import compile_bundle, load_bundle
from amplifier_foundation.errors import BundleError
from amplifier_foundation.settings import Settings
from contract.requirements import requirement

Write = Callable[[str, str], Path]

TOOLS = "tools: [{module: tool-task}, {module: tool-todo, config: {a: 1}}]"


async def agents_of(settings: Settings, path: Path) -> dict[str, dict[str, Any]]:
    prepared = compile_bundle(await load_bundle(path, settings=settings), settings, {})
    return prepared.plan["agents"]


@requirement("PLAN-7")
async def test_an_agents_file_becomes_its_overlay(settings: Settings, write: Write) -> None:
    path = write(
        "b/bundle.md", f"---\nbundle: {{name: b}}\n{TOOLS}\nagents: {{include: ['b:helper']}}\n---"
    )
    write(
        "b/agents/helper.md",
        "---\nmeta: {name: helper, description: Helps., model_role: fast}\n"
        "provider_preferences: [{provider: x}]\n"
        "tools: [{module: tool-todo, config: {b: 2}}, {module: own, source: ./own}]\n"
        "---\nHelp as @b:rules.md says.",
    )
    write("b/rules.md", "Rules.")

    agents = await agents_of(settings, path)

    assert agents == {
        "b:helper": {
            "description": "Helps.",
            "model_role": "fast",
            "provider_preferences": [{"provider": "x"}],
            "system": {"instruction": "Help as @b:rules.md says.\n\n# @b:rules.md\n\nRules."},
            "tools": [
                {"module": "tool-task"},
                {"module": "tool-todo", "config": {"a": 1, "b": 2}},
                {"module": "own", "source": str(path.parent / "agents" / "own")},
            ],
            "own_tools": ["tool-todo", "own"],
        }
    }


async def test_agents_in_place_may_name_the_file_of_their_instruction(
    settings: Settings, write: Write
) -> None:
    path = write(
        "b/bundle.md",
        "---\nbundle: {name: b}\nagents:\n"
        "  one: {description: d, instructions: 'b:agents/one.md'}\n"
        "  two: {instruction: In place., tools: []}\n---",
    )
    write("b/agents/one.md", "---\nmeta: {name: one}\n---\nFrom the file.")

    agents = await agents_of(settings, path)

    assert agents["one"] == {"description": "d", "system": {"instruction": "From the file."}}
    assert agents["two"] == {"tools": [], "system": {"instruction": "In place."}}


@pytest.mark.parametrize(
    ("spawn", "agent", "tools"),
    [
        ("{exclude_tools: [tool-task]}", "{}", ["tool-todo"]),
        ("{tools: [tool-task]}", "{}", ["tool-task"]),
        ("{tools: [tool-task]}", "{tools: [{module: own}]}", ["tool-task", "own"]),
        ("{}", "{agents: none}", ["tool-todo"]),
        ("{}", "{agents: [x]}", None),
        ("{}", "{}", None),
    ],
)
async def test_an_agent_has_what_is_handed_down_and_its_own(
    spawn: str, agent: str, tools: list[str] | None, settings: Settings, write: Write
) -> None:
    path = write("b/bundle.yaml", f"{TOOLS}\nspawn: {spawn}\nagents: {{x: {agent}}}\n")

    found = (await agents_of(settings, path))["x"].get("tools")

    assert (found and [tool["module"] for tool in found]) == tools


async def test_the_later_agent_takes_the_place_of_the_earlier(
    settings: Settings, write: Write
) -> None:
    write("b/one.yaml", "agents: {x: {description: one, model_role: fast}, y: {description: y}}")
    path = write("b/two.yaml", "includes: [./one.yaml]\nagents: {x: {description: two}}")

    agents = await agents_of(settings, path)

    assert agents == {
        "x": {"description": "two"},
        "y": {"description": "y"},
    }


@pytest.mark.parametrize(
    ("agents", "told"),
    [
        ("{x: {instructions: 'b:none.md'}}", "no file `b:none.md`"),
        ("{x: {agents: nobody}}", "`agents` of the agent `x`"),
    ],
)
async def test_an_agent_that_cannot_be_used_says_what_is_wrong(
    agents: str, told: str, settings: Settings, write: Write
) -> None:
    path = write("b/bundle.yaml", f"bundle: {{name: b}}\nagents: {agents}")

    with pytest.raises(BundleError) as error:
        await agents_of(settings, path)

    assert told in str(error.value)


@pytest.mark.parametrize("reference", ["b:none", "c:none"])
async def test_an_agent_that_is_not_there_is_left_out_with_a_warning(
    reference: str, settings: Settings, write: Write
) -> None:
    path = write("b/bundle.yaml", f"bundle: {{name: b}}\nagents: {{include: ['{reference}', x]}}")
    write("b/agents/x.md", "---\nmeta: {description: Writes.}\n---\nIn verse.")

    prepared = compile_bundle(await load_bundle(path, settings=settings), settings, {})

    assert list(prepared.plan["agents"]) == ["x"]
    (missing,) = prepared.missing
    assert (missing.kind, missing.reference) == ("agent", reference)
    assert str(missing) in prepared.notices


@pytest.mark.parametrize("reference", ["b:poet", "b:agents/poet.md", "b:agents/poet", "b:deep/x"])
async def test_an_agent_is_named_by_its_bundle_and_its_name_or_path(
    reference: str, settings: Settings, write: Write
) -> None:
    path = write("b/bundle.yaml", f"bundle: {{name: b}}\nagents: {{include: ['{reference}']}}")
    for name in ("poet", "deep/x"):
        write(f"b/agents/{name}.md", "---\nmeta: {description: Writes.}\n---\nIn verse.")

    agents = await agents_of(settings, path)

    assert agents[reference]["system"]["instruction"] == "In verse."


@requirement("PLAN-7")
async def test_a_child_agent_works_with_its_own_instruction(
    settings: Settings, write: Write
) -> None:
    path = write(
        "b/bundle.md",
        "---\nbundle: {name: b}\nproviders: [{module: provider-mock, config: {mode: echo}}]\n"
        "tools: [{module: tool-task}]\nagents:\n"
        "  poet: {description: Writes., instruction: In verse.,"
        " providers: [{module: provider-mock, config: {script: [Roses are red.]}}]}\n---",
    )
    prepared = compile_bundle(await load_bundle(path, settings=settings), settings, {})

    async with AmplifierSession(prepared.plan) as session:
        task: Any = session.coordinator.get("tools", "task")
        result = await task.execute({"prompt": "A verse, please.", "agent": "poet"})

    assert result.output == "Roses are red."
