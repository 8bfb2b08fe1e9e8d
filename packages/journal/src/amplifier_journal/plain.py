"""Conversion between the objects that modules exchange and plain JSON data."""

from __future__ import annotations

import builtins
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from decimal import Decimal
from math import isfinite
from types import NoneType
from typing import Any, cast

from amplifier_core import llm_errors
from amplifier_core.errors import error_text

__all__ = ["build_error", "plain_error"]

logger = logging.getLogger(__name__)

_PLAIN = frozenset({str, int, bool, NoneType})
_LONGEST = 2_000
_SHOWN = 500


def plain(value: Any) -> Any:
    """Return `value` as JSON data; unknown types become their text."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(key): plain(each) for key, each in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, float):
        if isfinite(value):
            return value
        return str(value)
    if isinstance(value, Decimal):
        return str(value)
    dumped = _dumped(value)
    if dumped is None:
        return str(value)
    return dumped


def plain_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON data that modules keep in `session_state`, without their objects.

    A module puts its objects there again when it is mounted. Restored as texts, they would take the
    place of the objects.
    """
    return {key: plain(value) for key, value in state.items() if _is_data(value)}


def _is_data(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_data, cast("Mapping[Any, Any]", value).values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_data, cast("list[Any]", value)))
    is_model = callable(getattr(value, "model_dump", None))
    return is_model or isinstance(value, str | int | float | bool | Decimal | NoneType)


def plain_model(model: Any) -> Any:
    """Return a pydantic model as JSON data without None fields; anything else as `plain` does."""
    dumped = _dumped(model)
    if dumped is None:
        return plain(model)
    return dumped


def _dumped(value: Any) -> Any:
    dump: Any = getattr(value, "model_dump", None)
    # A model class has the attribute, too, and cannot be dumped.
    if not callable(dump) or isinstance(value, type):
        return None
    try:
        return dump(mode="json", exclude_none=True)
    except Exception:
        # A model may contain objects that pydantic cannot serialize; `plain` makes them texts.
        logger.debug("model not dumped type=%s", type(value).__name__, exc_info=True)
        return plain(vars(value))


def digest_of(value: Any) -> str:
    """Return a short digest of JSON data: equal data has the same digest in every log."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    # Logs of earlier versions may contain lone surrogates, which UTF-8 cannot encode otherwise.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def shortened(value: Any) -> Any:
    """Return JSON data with long texts cut; each has its original length and digest."""
    if isinstance(value, str):
        if len(value) <= _LONGEST:
            return value
        return {"cut_text": value[:_SHOWN], "chars": len(value), "digest": digest_of(value)}
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: shortened(each) for key, each in items}
    if isinstance(value, list):
        return [shortened(each) for each in cast("list[Any]", value)]
    return value


def has_long_text(value: Any) -> bool:
    """Whether `shortened` would change anything."""
    if isinstance(value, str):
        return len(value) > _LONGEST
    if isinstance(value, dict):
        return any(map(has_long_text, cast("dict[str, Any]", value).values()))
    return isinstance(value, list) and any(map(has_long_text, cast("list[Any]", value)))


# Fields of an error that its class accepts as keyword arguments.
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
    """Return an error's class, message and the fields to rebuild it."""
    fields = {name: getattr(error, name, None) for name in _ERROR_FIELDS}
    return {
        "type": type(error).__name__,
        "module": type(error).__module__,
        "message": error_text(error),
        "fields": {name: plain(value) for name, value in fields.items() if value is not None},
    }


def build_error(error: dict[str, Any]) -> BaseException:
    """Return a recorded error as an exception, of its own class if the kernel or Python has it."""
    name: str = error["type"]
    known: Any = getattr(llm_errors, name, None) or getattr(builtins, name, None)
    if not (isinstance(known, type) and issubclass(known, BaseException)):
        # The module that has the class may not be installed here. A class of the same name keeps
        # messages and comparisons as they were.
        known = type(name, (Exception,), {})
    make: Callable[..., BaseException] = known
    try:
        return make(error["message"], **error.get("fields", {}))
    except TypeError:
        return type(name, (Exception,), {})(error["message"])
