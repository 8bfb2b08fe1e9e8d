"""An event's data on its way through the handlers: JSON-safe, and isolated from each of them.

A payload is walked once, converted only where JSON needs it, and the walk leaves a plan: where the
nested containers sit. A handler's copy is made by that plan, so its cost grows with the number of
containers and not with the number or the size of the values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite
from types import NoneType
from typing import Any, TypeAlias, TypeVar, cast

# One pair per nested container: its key (or index) and the plan of what it holds in turn.
Plan: TypeAlias = "list[tuple[Any, Plan]]"
Container = TypeVar("Container", dict[str, Any], list[Any])

logger = logging.getLogger(__name__)

_PLAIN = frozenset({str, int, bool, NoneType})
_FLAT: Plan = []


class Payload:
    """The data of one event: the caller's own objects, and an isolated view for each handler."""

    __slots__ = ("_plan", "_pristine", "current", "modified")

    def __init__(self, current: dict[str, Any]) -> None:
        """Take a dict that nobody else holds; what it contains may be anybody's."""
        self.current = current
        self.modified = False
        for key, value in current.items():
            if type(value) not in _PLAIN or type(key) is not str:
                break
        else:
            # Nothing in it can change, as with most events: there is nothing to convert or copy.
            self._pristine, self._plan = current, _FLAT
            return
        safe, self._plan = survey(current)
        # A copy of its own: the caller may go on changing its data while handlers are awaited.
        self._pristine = isolate(safe, self._plan)

    def view(self) -> Any:
        """Return a copy that a handler may keep and change."""
        plan = self._plan
        return isolate(self._pristine, plan) if plan else self._pristine.copy()

    def replace(self, data: dict[str, Any]) -> None:
        """Let `data` take the place of the data so far, a handler's edit.

        A value equal to the one handed out was not edited: the caller's own object stays.
        """
        handed_out, before = self._pristine, self.current
        safe, self._plan = survey(data)
        self._pristine = isolate(safe, self._plan)
        self.modified = True
        self.current = {
            key: before.get(key, value)
            if key in handed_out and handed_out[key] == value
            else _edited(data, key, value)
            for key, value in self._pristine.items()
        }


def _edited(data: dict[str, Any], key: str, isolated: Any) -> Any:
    """Return an edit as its handler gave it; a container isolated, for it may keep its own."""
    given: Any = data.get(key, isolated)
    return isolated if isinstance(given, Mapping | list | tuple) else given


class OpaquePayload(Payload):
    """Data that is no dict: handlers see it as it is, and nothing of it is returned."""

    __slots__ = ("_data",)

    def __init__(self, data: Any) -> None:
        super().__init__({})
        self._data = data

    def view(self) -> Any:
        """Return the data itself, until a handler's edit has taken its place."""
        return super().view() if self.modified else self._data


def survey(payload: dict[Any, Any]) -> tuple[dict[str, Any], Plan]:
    """Return `payload` as JSON-safe data, itself when it is so already, and its copy plan.

    Models are dumped, tuples become lists, keys become strings; whatever else JSON does not know
    appears as its `str`. Data that contains itself raises ValueError.
    """
    try:
        return _survey_dict(payload)
    except RecursionError:
        raise ValueError("Circular reference detected") from None


def isolate(container: Container, plan: Plan) -> Container:
    """Copy every container in `container`, sharing only what cannot be changed."""
    copy = container.copy()
    for key, nested in plan:
        copy[key] = isolate(copy[key], nested) if nested else copy[key].copy()
    return copy


def _survey_dict(source: dict[Any, Any]) -> tuple[dict[str, Any], Plan]:
    safe, plan = source, _FLAT
    for key, value in source.items():
        if type(value) in _PLAIN and type(key) is str:
            continue
        if type(key) is not str:
            return _survey_dict({_key(each): source[each] for each in source})
        kept, nested = _survey_value(value)
        if nested is not None:
            plan = [] if plan is _FLAT else plan
            plan.append((key, nested))
        if kept is not value:
            safe = source.copy() if safe is source else safe
            safe[key] = kept
    return cast("dict[str, Any]", safe), plan


def _survey_list(source: list[Any]) -> tuple[list[Any], Plan]:
    safe, plan = source, _FLAT
    for index, value in enumerate(source):
        if type(value) in _PLAIN:
            continue
        kept, nested = _survey_value(value)
        if nested is not None:
            plan = [] if plan is _FLAT else plan
            plan.append((index, nested))
        if kept is not value:
            safe = source.copy() if safe is source else safe
            safe[index] = kept
    return safe, plan


def _survey_value(value: Any) -> tuple[Any, Plan | None]:
    """Return `value` JSON-safe, and its plan when it is a container."""
    if type(value) is dict:
        return _survey_dict(cast("dict[Any, Any]", value))
    if type(value) is list:
        return _survey_list(cast("list[Any]", value))
    if type(value) is float:
        return (value if isfinite(value) else str(value)), None
    converted = convert(value)
    return _survey_value(converted) if type(converted) not in _PLAIN else (converted, None)


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
    except Exception:  # noqa: BLE001 - the value's own __str__ is broken; its identity still tells
        return object.__repr__(value)


def _key(key: Any) -> str:
    return str.__str__(key) if isinstance(key, str) else _text(key)
