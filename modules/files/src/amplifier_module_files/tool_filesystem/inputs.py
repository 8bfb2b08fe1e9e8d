"""The input models of the tools."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field

_LONGEST_PATH = 4_096


class ToolInput(BaseModel):
    """What one tool takes; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class FileInput(ToolInput):
    """The file that a call is about."""

    file_path: str = Field(
        min_length=1,
        max_length=_LONGEST_PATH,
        description="The file, relative to the working folder or absolute.",
    )


class ReadFile(FileInput):
    """The lines to read."""

    offset: int = Field(default=1, ge=1, description="The first line, counted from 1.")
    limit: int = Field(default=2_000, ge=1, description="How many lines at most.")


class WriteFile(FileInput):
    """The whole file."""

    content: str = Field(description="All that the file is to hold.")


class Replacement(ToolInput):
    """One replacement."""

    old_string: str = Field(min_length=1, description="The text as it is in the file, exactly.")
    new_string: str = Field(description="The text to put in its place.")
    replace_all: bool = Field(default=False, description="Replace every occurrence.")


class EditFile(Replacement, FileInput):
    """One replacement in one file."""


class MultiEdit(FileInput):
    """Several replacements in one file."""

    edits: list[Replacement] = Field(
        min_length=1, description="Made one after the other: all of them, or none."
    )


class ListDirectory(ToolInput):
    """The folder to list."""

    path: str = Field(
        default=".",
        max_length=_LONGEST_PATH,
        description="The folder, relative to the working folder or absolute.",
    )


def schema_of(model: type[ToolInput]) -> dict[str, Any]:
    """Return a model's JSON Schema without references and without generated titles."""
    schema = model.model_json_schema()
    return _plain(schema, schema.pop("$defs", {}))


def _plain(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(each, definitions) for each in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    values = cast("dict[str, Any]", node)
    if "$ref" in values:
        return _plain(definitions[values["$ref"].rpartition("/")[2]], definitions)
    return {key: _plain(value, definitions) for key, value in values.items() if key != "title"}
