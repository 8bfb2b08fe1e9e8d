"""What is wrong with a call before anybody is asked about it: its arguments, or what it meets."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any, cast

logger = logging.getLogger(__name__)

# A tool that needs longer to look is asked about unlooked at.
_LONGEST_SECONDS = 5.0
_MOST_PROBLEMS = 5
_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list, tuple),
    "boolean": (bool,),
    "object": (dict,),
    "string": (str,),
}


async def objection(tool: Any, tool_input: Any, *, may_look: bool = True) -> str | None:
    """Return why a call would fail, as the model reads it; None when nothing is known against it.

    A tool may have a `preflight`: it takes the input, changes nothing, and returns a text, or None.
    Whatever it says, the tool itself decides again when it runs.
    """
    problem = schema_problems(getattr(tool, "input_schema", None), tool_input)
    if problem is not None:
        return problem
    look = getattr(tool, "preflight", None) if may_look else None
    if not callable(look):
        return None
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            said: Any = look(tool_input)
            if inspect.isawaitable(said):
                said = await said
    except Exception:
        logger.exception("preflight failed tool=%s", getattr(tool, "name", ""))
        return None
    # A double may have any attribute one asks for; only a text is an objection.
    if isinstance(said, str) and said:
        return said
    return None


def schema_problems(schema: Any, tool_input: Any) -> str | None:
    """Return what an input certainly lacks by the schema of its tool; None when it may do.

    Only what no tool could repair is a problem: required keys that are missing, unknown keys where
    the schema allows none, and texts, lists, objects and truth values of another kind.
    """
    if not isinstance(schema, dict) or not isinstance(tool_input, dict):
        return None
    known = cast("dict[str, Any]", schema)
    given = cast("dict[str, Any]", tool_input)
    declared: Any = known.get("properties")
    if isinstance(declared, dict):
        properties = cast("dict[str, Any]", declared)
    else:
        properties = {}
    required: Any = known.get("required")
    if isinstance(required, list):
        names = cast("list[Any]", required)
    else:
        names = []
    problems = [f"`{name}` is missing" for name in names if name not in given]
    if known.get("additionalProperties") is False:
        problems += [f"`{name}` is not known" for name in given if name not in properties]
    for name, value in given.items():
        kind = _kind_of(properties.get(name))
        if kind is not None and not isinstance(value, _TYPES[kind]):
            problems.append(f"`{name}` must be of type {kind}")
    return "; ".join(problems[:_MOST_PROBLEMS]) or None


def _kind_of(declared: Any) -> str | None:
    """Return the one kind that a property may have; None when it may have several."""
    if not isinstance(declared, dict):
        return None
    kind: Any = cast("dict[str, Any]", declared).get("type")
    if isinstance(kind, str) and kind in _TYPES:
        return kind
    return None
