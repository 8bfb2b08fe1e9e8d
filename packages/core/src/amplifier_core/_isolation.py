"""The data of an event for its handlers: a JSON-safe copy, isolated from every other handler."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import isfinite
from types import NoneType
from typing import Any, cast

logger = logging.getLogger(__name__)

_PLAIN = frozenset({str, int, bool, NoneType})
_NOTHING: Mapping[str, Any] = {}
# The methods by which a value becomes a dict. Tool results have one for hooks, which leaves out
# images; other models are dumped.
_RENDERINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("safe_hook_presentation", {}),
    ("model_dump", {"mode": "json"}),
    ("model_dump", {}),
)


class Payload:
    """The data of one event: the caller's own objects, and an isolated view for each handler.

    Data that is not a dict is shown to the handlers as it is, and nothing of it is returned.
    """

    def __init__(
        self, data: Any, below: Mapping[str, Any] = _NOTHING, above: Mapping[str, Any] = _NOTHING
    ) -> None:
        """Take the data; it overrides the fields `below`, and `above` overrides it."""
        mapping = as_dict(data)
        self._opaque = data
        self._is_opaque = mapping is None
        self.current: dict[str, Any] = {}
        if mapping is not None:
            self.current = {**below, **mapping, **above}
        # A copy: the caller may continue to change its data while handlers are awaited.
        self._pristine = json_copy(self.current)

    def view(self) -> Any:
        """Return a copy that a handler may keep and change."""
        return self._opaque if self._is_opaque else json_copy(self._pristine)

    def replace(self, data: dict[str, Any]) -> None:
        """Replace the data so far by `data`, a handler's edit.

        A value equal to the one the handler got was not edited, so the caller's own object stays.
        """
        handed_out = self._pristine
        before = self.current
        self._pristine = json_copy(data)
        self._is_opaque = False
        self.current = {}
        for key, value in self._pristine.items():
            given: Any = data.get(key, value)
            if key in handed_out and handed_out[key] == value:
                self.current[key] = before.get(key, value)
            elif isinstance(given, Mapping | list | tuple):
                self.current[key] = value  # isolated, because the handler may keep its own
            else:
                self.current[key] = given


def as_dict(data: Any) -> dict[str, Any] | None:
    """Return `data` as a dict if it is a mapping or a model, else None."""
    if type(data) is dict:
        return cast("dict[str, Any]", data)
    converted = convert(data)
    return cast("dict[str, Any]", converted) if isinstance(converted, dict) else None


def json_copy(data: dict[Any, Any]) -> dict[str, Any]:
    """Return a JSON-safe copy of `data` that shares no mutable object with it.

    Models are dumped, tuples become lists, keys become strings; any other type that JSON does not
    have becomes its `str`. Data that contains itself raises ValueError.
    """
    try:
        return _copy(data)
    except RecursionError:
        raise ValueError("Circular reference detected") from None


def _copy(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if type(value) is dict:
        copied: dict[str, Any] = {}
        for key, each in cast("dict[Any, Any]", value).items():
            # Nearly every key and value is plain, and this runs for every event: save the call.
            plain_key = key if type(key) is str else _key(key)
            copied[plain_key] = each if type(each) in _PLAIN else _copy(each)
        return copied
    if type(value) is list:
        return [_copy(each) for each in cast("list[Any]", value)]
    if type(value) is float:
        return value if isfinite(value) else str(value)
    return _copy(convert(value))


def convert(value: Any) -> Any:
    """Return the nearest plain equivalent of a value whose type JSON does not have."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    try:
        if isinstance(value, Mapping):
            return dict(cast("Mapping[Any, Any]", value))
        if isinstance(value, list | tuple):
            return list(cast("list[Any]", value))
    except Exception:
        logger.debug("event value not read, shown as text", exc_info=True)
        return _text(value)
    return _dump(value)


def _dump(value: Any) -> Any:
    """Return a model as a dict, and anything else as text."""
    for method, arguments in () if isinstance(value, type) else _RENDERINGS:
        try:
            render: Any = getattr(value, method, None)
            dumped = render(**arguments) if callable(render) else None
        except Exception:
            logger.debug("event value not dumped type=%s", type(value).__name__, exc_info=True)
            continue
        if isinstance(dumped, dict):
            return cast("dict[Any, Any]", dumped)
    return _text(value)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the value's own __str__ is broken
        return object.__repr__(value)


def _key(key: Any) -> str:
    return str.__str__(key) if isinstance(key, str) else _text(key)
