"""How two configurations become one: the later wins, and what it does not mention stays."""

from __future__ import annotations

import json
from typing import Any, cast

__all__ = ["merge"]


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
