"""An event's data on its way through the handlers: JSON-safe, and isolated from each of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite
from types import NoneType
from typing import Any, cast

logger = logging.getLogger(__name__)

_PLAIN = frozenset({str, int, bool, NoneType})


class Payload:
    """The data of one event: the caller's own objects, and an isolated view for each handler."""

    def __init__(self, current: dict[str, Any]) -> None:
        """Take a dict that nobody else has; its values may be shared."""
        self.current = current
        # A copy: the caller may continue to change its data while handlers are awaited.
        self._pristine = json_copy(current)

    def view(self) -> Any:
        """Return a copy that a handler may keep and change."""
        return json_copy(self._pristine)

    def replace(self, data: dict[str, Any]) -> None:
        """Let `data` take the place of the data so far, a handler's edit.

        A value equal to the one handed out was not edited: the caller's own object stays.
        """
        handed_out = self._pristine
        before = self.current
        self._pristine = json_copy(data)
        current: dict[str, Any] = {}
        for key, value in self._pristine.items():
            if key in handed_out and handed_out[key] == value:
                current[key] = before.get(key, value)
            else:
                current[key] = _edited(data, key, value)
        self.current = current


def _edited(data: dict[str, Any], key: str, isolated: Any) -> Any:
    """Return an edit as its handler gave it; a container isolated, for it may keep its own."""
    given: Any = data.get(key, isolated)
    return isolated if isinstance(given, Mapping | list | tuple) else given


class OpaquePayload(Payload):
    """Data that is not a dict: handlers see it as it is, and nothing of it is returned."""

    def __init__(self, data: Any) -> None:
        super().__init__({})
        self._data = data
        self._modified = False

    def view(self) -> Any:
        """Return the data itself, until a handler's edit has taken its place."""
        return super().view() if self._modified else self._data

    def replace(self, data: dict[str, Any]) -> None:
        """Let a handler's edit take the place of the data."""
        super().replace(data)
        self._modified = True


def json_copy(data: dict[Any, Any]) -> dict[str, Any]:
    """Return `data` as JSON-safe data that shares nothing which can be changed.

    Models are dumped, tuples become lists, keys become strings; whatever else JSON does not know
    appears as its `str`. Data that contains itself raises ValueError.
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
            # Nearly every key and value is plain already: not worth a call.
            plain_key = key if type(key) is str else _key(key)
            copied[plain_key] = each if type(each) in _PLAIN else _copy(each)
        return copied
    if type(value) is list:
        return [_copy(each) for each in cast("list[Any]", value)]
    if type(value) is float:
        return value if isfinite(value) else str(value)
    return _copy(convert(value))


def convert(value: Any) -> Any:
    """Return the nearest plain equivalent of a value that JSON does not know."""
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
    if not isinstance(value, type):
        for render in _renderings(value):
            try:
                dumped = render()
            except Exception:
                logger.debug("event value not dumped type=%s", type(value).__name__, exc_info=True)
                continue
            if isinstance(dumped, dict):
                return cast("dict[Any, Any]", dumped)
    return _text(value)


def _renderings(value: Any) -> Iterator[Callable[[], Any]]:
    # A tool result presents itself to observers without its images; other models just dump.
    present = getattr(value, "safe_hook_presentation", None)
    if callable(present):
        yield present
    model_dump = getattr(value, "model_dump", None)
    if callable(model_dump):
        yield partial(model_dump, mode="json")
        yield model_dump


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the value's own __str__ is broken
        return object.__repr__(value)


def _key(key: Any) -> str:
    return str.__str__(key) if isinstance(key, str) else _text(key)
