"""Definitions of tools, and the record of approved ones, shared by all sessions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import jsonschema_rs

from amplifier_kit.durable_files import make_private_folder, write_whole
from amplifier_sandbox.home import expanded
from amplifier_sandbox.ownership import exposure_of
from amplifier_sandbox.platforms.locks import locked
from amplifier_sandbox.visible_text import exact, hidden_in, visible

_PROSE = ("description", "title", "$comment")
_LONGEST_NAME = 64
# The limit of the protocol.
_LONGEST_TOOL_NAME = 128
_LONGEST_DESCRIPTION = 8_000
_DEEPEST = 64
# How many subschemas one value may be checked against, references followed.
_MOST_CHECKS = 20_000
# Schemas are untrusted: a regex engine without backtracking, and a limit on compiled patterns.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=200_000, dfa_size_limit=2_000_000)


class DefinitionError(Exception):
    """A tool cannot be offered as its server defines it."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A checked definition of a tool."""

    tool: str
    description: str
    schema: dict[str, Any]
    validator: jsonschema_rs.Validator = field(compare=False, repr=False)
    # How many invisible characters were escaped.
    hidden: int = field(default=0, compare=False)

    def complaint(self, arguments: dict[str, Any]) -> str | None:
        """Return what is wrong with `arguments`, or None if they are valid."""
        try:
            errors = [
                f"{'.'.join(map(str, error.instance_path)) or 'input'}: {error.message[:300]}"
                for error, _ in zip(self.validator.iter_errors(arguments), range(5), strict=False)
            ]
        except (TypeError, ValueError) as error:
            return f"The input is no JSON: {error}."
        return "; ".join(errors) or None

    def stored(self) -> dict[str, Any]:
        """Return what the user approves and what is recorded."""
        return {"description": self.description, "schema": self.schema}


def shown_name(tool: str) -> str:
    """Return the server's name of a tool in one short line, with invisible characters escaped."""
    return exact(tool[:_LONGEST_NAME])[:_LONGEST_NAME] + ("…" if len(tool) > _LONGEST_NAME else "")


def mounted_name(server: str, tool: str) -> str:
    """Return the name under which a server's tool is mounted, in the form that vendors accept."""
    name = f"{server}__{re.sub('[^A-Za-z0-9_-]', '_', tool)}"
    if len(name) <= _LONGEST_NAME:
        return name
    # The digest distinguishes long names with the same beginning.
    return f"{name[: _LONGEST_NAME - 9]}_{sha256(tool.encode()).hexdigest()[:8]}"


def read_definition(raw: dict[str, Any], most_bytes: int) -> Definition:
    """Check a listed tool and return its definition.

    Raises:
        DefinitionError: it is too large, has external references, or is not a valid schema.
    """
    if len(raw["name"]) > _LONGEST_TOOL_NAME:
        raise DefinitionError(f"its name has more than {_LONGEST_TOOL_NAME} characters")
    schema: dict[str, Any] = raw.get("inputSchema") or {}
    size = 0
    # Encoded incrementally, so that a huge schema is refused without building its text.
    for piece in json.JSONEncoder().iterencode(schema):
        size += len(piece)
        if size > most_bytes:
            raise DefinitionError(f"its schema has more than {most_bytes} bytes")
    if schema.get("type") != "object":
        raise DefinitionError("its schema does not describe an object")
    description = str(raw.get("description") or "")
    hidden: list[str] = hidden_in(description)
    schema = _cleaned(schema, hidden, is_prose=False)
    if _checks(schema, schema, {}, 0) > _MOST_CHECKS:
        raise DefinitionError("its schema multiplies by references")
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True, pattern_options=_PATTERNS)
    except ValueError as error:
        raise DefinitionError(f"its schema is not usable: {str(error)[:200]}") from error
    left_out = len(description) - _LONGEST_DESCRIPTION
    description = visible(description[:_LONGEST_DESCRIPTION])
    if left_out > 0:
        description += f" [{left_out} characters left out]"
    return Definition(raw["name"], description, schema, validator, len(hidden))


def _cleaned(value: Any, hidden: list[str], *, is_prose: bool) -> Any:
    """Return `value` with invisible characters in prose escaped; refuse them elsewhere."""
    if isinstance(value, str):
        found = hidden_in(value)
        if found and not is_prose:
            raise DefinitionError(f"its schema hides characters in {visible(value)[:100]}")
        hidden += found
        return visible(value) if is_prose else value
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_cleaned(each, hidden, is_prose=is_prose) for each in items]
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {
            _cleaned(key, hidden, is_prose=False): _cleaned(each, hidden, is_prose=key in _PROSE)
            for key, each in table.items()
        }
    return value


def _checks(value: Any, root: dict[str, Any], known: dict[str, int], depth: int) -> int:
    """Return how many subschemas a value is checked against, references followed.

    A few references that nest can multiply into millions of checks, like an XML entity bomb.
    """
    if depth > _DEEPEST:
        raise DefinitionError(f"its schema is nested deeper than {_DEEPEST} levels")
    if isinstance(value, list):
        return sum(_checks(each, root, known, depth + 1) for each in cast("list[Any]", value))
    if not isinstance(value, dict):
        return 0
    table = cast("dict[str, Any]", value)
    if "$dynamicRef" in table or "$recursiveRef" in table or (depth and "$id" in table):
        raise DefinitionError("its schema moves the target of references")
    total = 1 + sum(_checks(each, root, known, depth + 1) for each in table.values())
    reference = table.get("$ref")
    if isinstance(reference, str):
        if reference not in known:
            known[reference] = 0  # found again below: a loop, which adds no checks
            known[reference] = _checks(_target(reference, root), root, known, depth + 1)
        total += known[reference]
    return total


def _target(reference: str, root: dict[str, Any]) -> Any:
    if reference != "#" and not reference.startswith("#/"):
        raise DefinitionError(f"its schema refers to {visible(reference)[:100]}, outside itself")
    target: Any = root
    for step in reference[2:].split("/") if reference != "#" else ():
        try:
            target = target[step.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError):
            raise DefinitionError(f"its schema refers to {reference[:100]}, not there") from None
    return target


class RecordError(Exception):
    """The record cannot be trusted, so no tool counts as approved."""


class SeenRecord:
    """Approved definitions by server; one with another command or address is another server."""

    def __init__(self, path: Path) -> None:
        self._path = expanded(path)

    async def of(self, server: str, source: str) -> dict[str, Any] | None:
        """Return the approved definitions of a server by tool; None if there are none yet.

        Raises:
            RecordError: the file cannot be read.
        """
        table = (await asyncio.to_thread(self._read)).get(server)
        if table is not None and table["source"] == source:
            return table["tools"]
        return None

    async def add(self, server: str, source: str, definitions: Sequence[Definition]) -> None:
        """Record that these were approved.

        Raises:
            RecordError: the file cannot be read or written.
        """
        await asyncio.to_thread(self._add, server, source, definitions)

    def _add(self, server: str, source: str, definitions: Sequence[Definition]) -> None:
        try:
            make_private_folder(self._path.parent)
            lock_path = self._path.with_name(f"{self._path.name}.lock")
            # Sessions that approve tools at the same time must not lose each other's.
            with locked(lock_path):
                servers = self._read()
                if servers.get(server, {}).get("source") != source:
                    servers[server] = {"source": source, "tools": {}}
                servers[server]["tools"] |= {each.tool: each.stored() for each in definitions}
                write_whole(self._path, json.dumps(servers, indent=1).encode())
        except OSError as error:
            raise RecordError(f"`{self._path}` cannot be written: {error}") from error

    def _read(self) -> dict[str, Any]:
        exposure = exposure_of(self._path)
        if exposure is not None:
            raise RecordError(f"{exposure.why} Then: {exposure.fix}")
        try:
            servers: Any = json.loads(self._path.read_bytes())
            for table in servers.values():
                if not isinstance(table["source"], str) or not isinstance(table["tools"], dict):
                    raise TypeError("a server has no source or no tools")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RecordError(
                f"`{self._path}` cannot be relied on ({error}); repair it, or delete it to be "
                "asked about every tool again"
            ) from error
        return cast("dict[str, Any]", servers)
