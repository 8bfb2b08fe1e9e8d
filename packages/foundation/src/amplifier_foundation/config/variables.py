"""`${NAME}` and `${NAME:default}` in configuration values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

__all__ = ["MISSING", "UNSET", "Lookup", "expand", "expand_value"]

Lookup = Callable[[str], str | None]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}")
UNSET: Any = object()
# Stands for the user's value where only the project has one.
MISSING: Any = object()


def expand(values: dict[str, Any], lookup: Lookup, unset: list[str]) -> dict[str, Any]:
    """Return a copy of `values` with every variable replaced.

    The name of a variable that is unset and has no default is added to `unset`. A value that is
    only such a variable is left out, as if it had not been written.
    """
    return cast("dict[str, Any]", expand_value(values, lookup, unset))


def expand_value(value: Any, lookup: Lookup, unset: list[str]) -> Any:
    """Return any value with its variables replaced; UNSET if it has to be left out."""
    if isinstance(value, str):
        if "${" in value:
            return _expand_text(value, lookup, unset)
        return value
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        pairs = ((key, expand_value(each, lookup, unset)) for key, each in items)
        return {key: each for key, each in pairs if each is not UNSET}
    if isinstance(value, list):
        expanded = (expand_value(each, lookup, unset) for each in cast("list[Any]", value))
        return [each for each in expanded if each is not UNSET]
    return value


def _expand_text(text: str, lookup: Lookup, unset: list[str]) -> Any:
    missing: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        found = lookup(match[1])
        if found is None and match[2] is None:
            missing.append(match[1])
        if found is not None:
            return found
        return match[2] or ""

    # After the last `}`, the pattern would scan from every `${A:` to the end: quadratic time.
    end = text.rfind("}") + 1
    expanded = _VARIABLE.sub(value_of, text[:end]) + text[end:]
    unset.extend(missing)
    if missing and _VARIABLE.fullmatch(text):
        return UNSET
    return expanded
