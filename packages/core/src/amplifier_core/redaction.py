"""Making data fit to be shown: cutting long texts and blanking secrets."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

__all__ = ["SENSITIVE_KEYS", "redact_secrets", "truncate_values"]

SENSITIVE_KEYS = frozenset(
    {
        "api_key",
        "apikey",
        "api-key",
        "secret",
        "password",
        "token",
        "credential",
        "credentials",
        "private_key",
        "privatekey",
        "auth",
        "authorization",
    }
)


def truncate_values(obj: Any, max_length: int = 180) -> Any:
    """Copy `obj` with every string in its dicts and lists cut to `max_length` characters."""
    if isinstance(obj, str):
        surplus = len(obj) - max_length
        return f"{obj[:max_length]}... (truncated {surplus} chars)" if surplus > 0 else obj
    if isinstance(obj, dict):
        items = cast("dict[Any, Any]", obj).items()
        return {key: truncate_values(value, max_length) for key, value in items}
    if isinstance(obj, list):
        return [truncate_values(value, max_length) for value in cast("list[Any]", obj)]
    return obj


def redact_secrets(obj: Any, sensitive_keys: Collection[str] = SENSITIVE_KEYS) -> Any:
    """Copy `obj` with the value of every sensitive dict key replaced by `[REDACTED]`.

    A key is sensitive if its lower-case form, as a whole, is in `sensitive_keys`.
    """
    if isinstance(obj, dict):
        items = cast("dict[Any, Any]", obj).items()
        return {
            key: "[REDACTED]"
            if isinstance(key, str) and key.lower() in sensitive_keys
            else redact_secrets(value, sensitive_keys)
            for key, value in items
        }
    if isinstance(obj, list):
        return [redact_secrets(value, sensitive_keys) for value in cast("list[Any]", obj)]
    return obj
