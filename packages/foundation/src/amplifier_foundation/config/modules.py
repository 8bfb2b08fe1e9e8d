"""Merge configurations and lists of modules, of bundles and settings."""

from __future__ import annotations

import json
from typing import Any, cast


def merge(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return both: dicts merged by key, lists joined without repetition, else the later value.

    Neither is changed.
    """
    merged = dict(earlier)
    for key, value in later.items():
        merged[key] = _merge_values(merged[key], value) if key in merged else value
    return merged


def _merge_values(earlier: Any, later: Any) -> Any:
    if isinstance(earlier, dict) and isinstance(later, dict):
        return merge(cast("dict[str, Any]", earlier), cast("dict[str, Any]", later))
    if isinstance(earlier, list) and isinstance(later, list):
        return _join(cast("list[Any]", earlier), cast("list[Any]", later))
    return later


def _join(earlier: list[Any], later: list[Any]) -> list[Any]:
    # As JSON, `1` and `true` and `"1"` differ, and dicts can be compared.
    return list({json.dumps(item, sort_keys=True): item for item in (*earlier, *later)}.values())


SESSION_PARTS = ("orchestrator", "context")


def module_list(value: Any) -> list[dict[str, Any]] | None:
    """Return the value if it is a list whose entries all name a module, else None."""
    if not isinstance(value, list):
        return None
    entries = cast("list[Any]", value)
    named = (
        isinstance(entry, dict) and isinstance(cast("dict[str, Any]", entry).get("module"), str)
        for entry in entries
    )
    if all(named):
        return cast("list[dict[str, Any]]", entries)
    return None


def merge_modules(
    earlier: list[dict[str, Any]], later: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the entries of both lists, those of one module (or one instance of it) merged."""
    merged: dict[str, dict[str, Any]] = {}
    for entry in (*earlier, *later):
        key = module_key(entry)
        merged[key] = merge(merged.get(key, {}), entry)
    return list(merged.values())


def module_key(entry: dict[str, Any]) -> str:
    """Return the key of an entry in a module list: its instance, else its module."""
    return str(entry.get("instance_id") or entry.get("id") or entry.get("module"))


def long_form(session: dict[str, Any]) -> dict[str, Any]:
    """Return a session whose loop and memory are entries, also where only their id is given."""
    long = dict(session)
    for part in SESSION_PARTS:
        source = long.pop(f"{part}_source", None)
        if isinstance(long.get(part), str):
            long[part] = {"module": long[part]}
        if source is not None and isinstance(long.get(part), dict):
            long[part] = {"source": source, **long[part]}
    return long
