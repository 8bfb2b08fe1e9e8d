"""Picking a tool for a prompt, and arguments that its schema accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from amplifier_core.message_models import ToolSpec

_WORD = re.compile(r"[a-z0-9]+")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_PATH = re.compile(r"[\w.~-]*/[\w./~-]*|\b[\w-]+\.[A-Za-z]\w{0,4}\b")
_URL = re.compile(r"https?://\S+")
# Arguments are looked for in the beginning of a prompt only: it may be a whole file.
_READ_CHARS = 2_000
# Words that say nothing about which tool is meant.
_FILLERS = frozenset(
    _WORD.findall(
        "a an and are as at be by can do for from give i in is it me my of on or please tell that "
        "the this to use using what which with you your"
    )
)


def pick_tool(prompt: str, tools: list[ToolSpec]) -> ToolSpec:
    """Return the tool that shares most words with the prompt: in its name, else in what it says.

    The first one wins, among equals and when none shares a word.
    """
    wanted = _words(prompt)
    return max(
        tools,
        key=lambda tool: (
            len(wanted & _words(tool.name)),
            len(wanted & _words(tool.description or "")),
        ),
    )


def fill_arguments(prompt: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a value for every required property of `schema`, taken from the prompt if possible."""
    return _Filler(prompt[:_READ_CHARS]).fill_object(schema)


def _words(text: str) -> set[str]:
    # Names are written in several styles: read_file, read-file, readFile.
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return set(_WORD.findall(spaced.lower())) - _FILLERS


class _Filler:
    """Hands out the numbers of a prompt one by one, and its texts as often as needed."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._numbers: Iterator[str] = iter(_NUMBER.findall(prompt))

    def fill_object(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties: dict[str, Any] = schema.get("properties") or {}
        required: Any = schema.get("required")
        if isinstance(required, list):
            names = cast("list[str]", required)
        else:
            names = []
        return {name: self._fill(name, properties.get(name) or {}) for name in names}

    def _fill(self, name: str, schema: dict[str, Any]) -> Any:
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("enum", "examples"):
            if schema.get(key):
                return schema[key][0]
        for key in ("anyOf", "oneOf", "allOf"):
            if schema.get(key):
                return self._fill(name, schema[key][0])
        return self._fill_type(name, schema)

    def _fill_type(self, name: str, schema: dict[str, Any]) -> Any:
        kind: Any = schema.get("type", "string")
        if isinstance(kind, list):
            kind = next((each for each in cast("list[Any]", kind) if each != "null"), "null")
        if kind in ("integer", "number"):
            return self._number(schema, whole=kind == "integer")
        if kind == "object":
            return self.fill_object(schema)
        if kind == "array":
            items = range(schema.get("minItems") or 0)
            return [self._fill(name, schema.get("items") or {}) for _ in items]
        if kind in ("boolean", "null"):
            return False if kind == "boolean" else None
        return self._text(name)

    def _number(self, schema: dict[str, Any], *, whole: bool) -> int | float:
        number = float(next(self._numbers, schema.get("minimum", 1)))
        number = max(number, schema.get("minimum", number))
        number = min(number, schema.get("maximum", number))
        if whole or number.is_integer():
            return int(number)
        return number

    def _text(self, name: str) -> str:
        named = _words(name)
        if named & {"path", "file", "filename", "dir", "directory", "folder"}:
            found = _PATH.search(self._prompt)
            return found[0] if found else "."
        if named & {"url", "uri", "link"}:
            found = _URL.search(self._prompt)
            if found:
                return found[0]
            return "https://example.com"
        return self._prompt
