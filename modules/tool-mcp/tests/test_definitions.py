"""Definitions that are to mislead the model, or to keep the machine busy."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from amplifier_conformance.watch import loop_lag
from amplifier_module_tool_mcp.seen import DefinitionError, mounted_name, read_definition

LIMIT = 65_536
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "steal")


def listed(**schema: Any) -> dict[str, Any]:
    return {"name": "t", "description": "d", "inputSchema": {"type": "object", **schema}}


def doubling(levels: int) -> dict[str, Any]:
    """Return a small schema that holds a value against 2 ** levels parts."""
    steps = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    return {"$defs": {**steps, f"d{levels}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.attack("M3")
@pytest.mark.parametrize(
    "text",
    [TAGS, "\u200b", "\u202e", "\ufeff", "\u2066", "\x1b[2J", "\ue000", "\U000e0100", "\xad"],
)
def test_hidden_characters_become_visible_and_are_counted(text: str) -> None:
    raw = {**listed(title=f"a{text}"), "description": f"Adds.{text}"}

    found = read_definition(raw, LIMIT)

    assert found.description.startswith(("Adds.\\u", "Adds.\\U"))
    assert found.schema["title"].startswith(("a\\u", "a\\U"))
    assert found.description.isprintable()
    assert found.hidden == 2 * (5 if text == TAGS else 1)


def test_ordinary_writing_stays_as_it_is() -> None:
    words = "Größe \u4e2d\u6587 \u2764\ufe0f\n\t\u00e9\U0001f600"

    assert read_definition({**listed(), "description": words}, LIMIT).description == words


@pytest.mark.attack("M3")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"description": "x" * 1_000_000}, "more than 65536 bytes"),
        ({"$ref": "http://127.0.0.1:1/schema"}, "outside itself"),
        ({"$ref": "file:///etc/passwd"}, "outside itself"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "outside itself"),
        ({"$ref": "#/nowhere"}, "not there"),
        ({"properties": {"a": {"$dynamicRef": "#a"}}}, "moves the target"),
        ({"properties": {"a": {"$id": "http://a/"}}}, "moves the target"),
        (doubling(18), "multiplies"),
        (nested(100), "deeper"),
        ({"properties": {"a": {"pattern": "((a{100}){100}){100}"}}}, "not usable"),
        ({"properties": {"a": {"pattern": "("}}}, "not usable"),
        ({"properties": {"a\u200b": {}}}, "hides characters"),
        ({"properties": {"a": {"enum": ["x\u202e"]}}}, "hides characters"),
        ({"type": "array"}, "does not describe an object"),
        ({"type": 7}, "does not describe an object"),
    ],
)
def test_a_harmful_schema_is_refused_with_the_reason(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason):
        read_definition(listed(**schema), LIMIT)


@pytest.mark.attack("M3")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        doubling(10),
        {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
        {"properties": {"a": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}},
    ],
)
async def test_loops_and_pattern_bombs_do_not_hold_the_event_loop(schema: dict[str, Any]) -> None:
    found = read_definition(listed(**schema), LIMIT)

    async with loop_lag() as lags:
        found.complaint({"a": "a" * 50_000 + "!"})
        await asyncio.sleep(0)

    assert max(lags, default=0) < 0.05


def test_a_recursive_schema_still_checks_arguments() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}
    found = read_definition({"name": "t", "inputSchema": node}, LIMIT)

    assert found.complaint({"next": {"next": {"n": 1}}}) is None
    assert found.complaint({"next": {"next": {"n": "1"}}}) == (
        'next.next.n: "1" is not of type "integer"'
    )


def test_a_long_description_is_cut_and_says_so() -> None:
    found = read_definition({**listed(), "description": "x" * 9_000}, LIMIT)

    assert found.description.endswith("x [1000 characters left out]")


def test_long_names_stay_apart() -> None:
    names = {mounted_name("server", "n" * 100 + end) for end in "ab"}

    assert len(names) == 2
    assert {len(name) for name in names} == {64}


@pytest.mark.attack("M3")
async def test_a_listing_full_of_poison_leaves_the_loop_free_and_the_good_tools_there(
    harness: Any,
) -> None:
    huge = {f"p{n}": {"type": "string", "description": "x" * 100} for n in range(7_500)}
    poison = [
        harness.tool("huge", type="object", properties=huge),
        harness.tool("remote", type="object", **{"$ref": "https://example.com/s"}),
        harness.tool("doubling", type="object", **doubling(18)),
        harness.tool("sly", f"Adds.{TAGS}"),
    ]
    harness.plan(tools=[*poison, harness.tool()])
    assert len(json.dumps(poison)) > 1_000_000
    await harness.mount()
    held: Any = harness.coordinator.get("tools", "x__say").server
    connection = await held.connect()

    longest: list[float] = []
    # A busy machine may hold the loop too, but hardly three times running.
    for _ in range(3):
        connection.is_stale = True
        async with loop_lag() as lags, asyncio.timeout(120):
            await held.connect()
        longest.append(max(lags))

    assert harness.names() == ["mcp_load", "x__say", "x__sly"]
    assert {event["tool"] for event in harness.events("mcp:refused")} == {
        "huge",
        "remote",
        "doubling",
    }
    assert "`sly` hid 5 characters, now visible" in harness.lines()
    assert min(longest) < 0.05
