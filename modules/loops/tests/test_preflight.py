"""What is wrong with a call before anybody is asked about it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_module_loops.tool_runs import objection, schema_problems

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "lines": {"type": "array"},
        "count": {"type": "integer"},
        "either": {"type": ["string", "null"]},
    },
    "required": ["path"],
    "additionalProperties": False,
}


class Looking:
    """A tool that looks, and has seen `problem`."""

    name = "looking"
    input_schema = SCHEMA

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        self.looked = 0

    async def preflight(self, given: dict[str, Any]) -> Any:
        self.looked += 1
        if isinstance(self.problem, Exception):
            raise self.problem
        return self.problem


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"path": "a"}, None),
        ({"path": "a", "count": "5", "either": None}, None),
        ({}, "`path` is missing"),
        ({"path": "a", "mode": "w"}, "`mode` is not known"),
        ({"path": ["a"]}, "`path` must be of type string"),
        ({"path": "a", "lines": "b"}, "`lines` must be of type array"),
        ({"lines": 1}, "`path` is missing; `lines` must be of type array"),
    ],
    ids=str,
)
def test_only_what_no_tool_could_repair_is_a_problem(
    given: dict[str, Any], problem: str | None
) -> None:
    assert schema_problems(SCHEMA, given) == problem


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"properties": []}, "object"])
def test_a_schema_that_says_nothing_is_no_obstacle(schema: Any) -> None:
    assert schema_problems(schema, {"anything": 1}) is None


async def test_a_tool_that_has_seen_a_problem_says_so() -> None:
    assert await objection(Looking("it is not there"), {"path": "a"}) == "it is not there"


async def test_a_call_that_may_meet_what_another_changes_is_not_looked_at() -> None:
    tool = Looking("it is not there")

    assert await objection(tool, {"path": "a"}, may_look=False) is None
    assert tool.looked == 0


@pytest.mark.parametrize(
    "said", [None, "", 7, object(), ValueError("broken")], ids=lambda each: type(each).__name__
)
async def test_what_is_no_text_is_no_objection(said: Any) -> None:
    assert await objection(Looking(said), {"path": "a"}) is None


async def test_a_tool_without_a_preflight_is_left_to_itself() -> None:
    class Plain:
        input_schema = SCHEMA

    async with asyncio.timeout(120):
        assert await objection(Plain(), {"path": "a"}) is None
