"""Errors as JSON data, and back: what a log and a journal keep of a failure."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from amplifier_core import llm_errors
from amplifier_core.errors import error_text
from amplifier_foundation.recording.plain import plain

__all__ = ["build_error", "plain_error"]

# Fields of an error that its class takes back as keywords.
_ERROR_FIELDS = (
    "provider",
    "model",
    "status_code",
    "retryable",
    "retry_after",
    "delay_multiplier",
    "tool_name",
    "raw_arguments",
)


def plain_error(error: BaseException) -> dict[str, Any]:
    """Return an error's class, message and the fields to build it again."""
    fields = {name: getattr(error, name, None) for name in _ERROR_FIELDS}
    return {
        "type": type(error).__name__,
        "module": type(error).__module__,
        "message": error_text(error),
        "fields": {name: plain(value) for name, value in fields.items() if value is not None},
    }


def build_error(error: dict[str, Any]) -> BaseException:
    """Return a recorded error as an exception: of its own class if the kernel or Python has it."""
    name: str = error["type"]
    known: Any = getattr(llm_errors, name, None) or getattr(builtins, name, None)
    if not (isinstance(known, type) and issubclass(known, BaseException)):
        known = type(name, (Exception,), {})
    make: Callable[..., BaseException] = known
    try:
        return make(error["message"], **error.get("fields", {}))
    except TypeError:
        return type(name, (Exception,), {})(error["message"])
