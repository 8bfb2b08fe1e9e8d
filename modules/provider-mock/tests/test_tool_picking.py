"""Which tool the mock calls, and with what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ToolSpec
from amplifier_module_provider_mock.answers import fill_arguments, pick_tool


def tool(name: str, description: str | None = None) -> ToolSpec:
    return ToolSpec(name=name, description=description, parameters={})


FETCH = tool("web_fetch", "Get a page of the web.")
READ = tool("readFile", "Show what stands in a file.")
LIST = tool("list_directory", "Show the files of a folder.")


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Please read notes.txt for me", READ),
        ("list what is there", LIST),
        ("Which folder is this?", LIST),
        ("Get me a page", FETCH),
        ("Is fetch_list.py any good?", READ),
        ("hello there", None),
        ("What is the meaning of it all?", None),
        ("", None),
    ],
)
def test_the_tool_that_shares_a_word_with_the_prompt_is_picked(
    prompt: str, expected: ToolSpec | None
) -> None:
    assert pick_tool(prompt, [FETCH, READ, LIST]) is expected


def test_a_single_tool_is_called_whatever_the_prompt_says() -> None:
    assert pick_tool("hello there", [LIST]) is LIST


@pytest.mark.parametrize(
    ("prompt", "name", "schema", "expected"),
    [
        ("look around", "path", {"type": "string"}, "."),
        ("read docs/notes.md now", "file_path", {"type": "string"}, "docs/notes.md"),
        ("read notes.md", "filename", {}, "notes.md"),
        ("open https://a.example/b", "url", {"type": "string"}, "https://a.example/b"),
        ("open it", "url", {"type": "string"}, "https://example.com"),
        ("find the bug", "query", {"type": "string"}, "find the bug"),
        ("find the bug", "query", {"type": ["null", "string"]}, "find the bug"),
        ("take 7", "count", {"type": "integer"}, 7),
        ("take 700", "count", {"type": "integer", "maximum": 50}, 50),
        ("take some", "count", {"type": "integer"}, 1),
        ("take some", "count", {"type": "integer", "minimum": 3}, 3),
        ("scale by 2.5", "factor", {"type": "number"}, 2.5),
        ("do it", "force", {"type": "boolean"}, False),
        ("do it", "nothing", {"type": "null"}, None),
        ("do it", "unit", {"enum": ["m", "km"]}, "m"),
        ("do it", "unit", {"type": "string", "default": "mm"}, "mm"),
        ("do it", "unit", {"const": "cm"}, "cm"),
        ("do it", "unit", {"examples": ["yd"]}, "yd"),
        ("do it", "unit", {"anyOf": [{"type": "boolean"}, {"type": "null"}]}, False),
        ("do it", "items", {"type": "array"}, []),
        ("do it", "items", {"type": "array", "minItems": 2, "items": {"const": 1}}, [1, 1]),
        (
            "do it",
            "where",
            {"type": "object", "properties": {"path": {}}, "required": ["path"]},
            {"path": "."},
        ),
    ],
)
def test_a_required_argument_gets_a_sensible_value(
    prompt: str, name: str, schema: dict[str, Any], expected: Any
) -> None:
    arguments = fill_arguments(prompt, {"properties": {name: schema}, "required": [name]})

    assert arguments == {name: expected}


def test_the_numbers_of_a_prompt_are_handed_out_in_order() -> None:
    number = {"type": "number"}
    schema = {"properties": {"a": number, "b": number}, "required": ["a", "b"]}

    arguments = fill_arguments("add 2 and -3", schema)

    assert arguments == {"a": 2, "b": -3}
    assert {type(value) for value in arguments.values()} == {int}, "a whole number looks like one"


def test_what_is_not_required_is_left_out() -> None:
    assert fill_arguments("do it", {"properties": {"a": {"type": "string"}}}) == {}
    assert fill_arguments("do it", {"properties": None, "required": True}) == {}


_PYTHON_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


@given(
    prompt=st.text(),
    types=st.dictionaries(st.text(), st.sampled_from(sorted(_PYTHON_TYPES))),
)
def test_every_required_argument_has_the_type_its_schema_asks_for(
    prompt: str, types: dict[str, str]
) -> None:
    properties = {name: {"type": kind} for name, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types)}

    arguments = fill_arguments(prompt, schema)

    assert arguments.keys() == types.keys()
    assert all(isinstance(arguments[name], _PYTHON_TYPES[kind]) for name, kind in types.items())


def test_a_prompt_as_long_as_a_book_is_not_read_to_its_end() -> None:
    schema: dict[str, Any] = {
        "properties": {"path": {}, "text": {}},
        "required": ["path", "text"],
    }

    arguments = fill_arguments("x" * 10_000_000, schema)

    assert arguments["path"] == "."
    assert len(arguments["text"]) == 2_000


def test_a_number_too_long_to_be_one_is_read_in_part() -> None:
    schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}

    assert fill_arguments("9" * 500, schema) == {"n": 999_999_999_999_999}
