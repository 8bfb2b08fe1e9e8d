"""Proof that `emit` isolates its handlers and returns the caller's own objects.

It runs in the process that measures, before it measures: a kernel that is fast because handlers
share the caller's objects is caught here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, cast

from amplifier_core import HookRegistry, HookResult

EVENT = "tool:pre"
CONTINUE = HookResult(action="continue")

Vandal = Callable[[dict[str, Any]], None]


def _payload() -> dict[str, Any]:
    return {"name": "add", "input": {"a": 1, "rows": [1, {"deep": [2]}, [3]]}, "n": 1}


def _by_index(view: dict[str, Any]) -> None:
    view["name"] = "broken"
    view["input"]["a"] = 99
    view["input"]["rows"][1]["deep"].append(9)
    view["input"]["rows"][2] += [9]
    assert view["input"]["a"] == 99, "a handler must see its own edits"


def _by_methods(view: dict[str, Any]) -> None:
    view.get("input", {}).setdefault("rows", []).append(9)
    view.setdefault("input", {}).update(a=99)
    view.pop("input")["rows"].clear()
    view.popitem()


def _by_iteration(view: dict[str, Any]) -> None:
    for value in [*view.values(), *(pair[1] for pair in view.items())]:
        if isinstance(value, dict):
            cast("dict[str, Any]", value)["a"] = 99
    for row in view["input"]["rows"]:
        if isinstance(row, dict):
            cast("dict[str, Any]", row).clear()


def _by_slices(view: dict[str, Any]) -> None:
    rows = view["input"]["rows"]
    rows[1:][0]["deep"].append(9)
    [*rows][2].append(9)
    list(reversed(rows))[0].append(9)
    rows.copy()[1].clear()
    del rows[0]


def _by_copy_of_mapping(view: dict[str, Any]) -> None:
    dict(view)["input"]["rows"].append(9)


def _by_unpacking(view: dict[str, Any]) -> None:
    unpacked: dict[str, Any] = {**view}
    unpacked["input"]["rows"].append(9)


def _by_union(view: dict[str, Any]) -> None:
    united: dict[str, Any] = view | {"x": 1}
    united["input"]["rows"].append(9)


def _by_shallow_copy(view: dict[str, Any]) -> None:
    copy.copy(view)["input"]["rows"].append(9)
    view.copy()["input"]["a"] = 99


def _by_keywords(view: dict[str, Any]) -> None:
    def spoil(**fields: Any) -> None:
        fields["input"]["rows"].append(9)

    spoil(**view)


def _below_the_type(view: dict[str, Any]) -> None:
    # C code reads a dict without asking its subclass; so does this.
    plain: type[dict[str, Any]] = dict
    plain.__setitem__(plain.__getitem__(view, "input"), "a", 99)
    list[Any].append(plain.__getitem__(view, "input")["rows"], 9)


VANDALS: tuple[Vandal, ...] = (
    _by_index,
    _by_methods,
    _by_iteration,
    _by_slices,
    _by_copy_of_mapping,
    _by_unpacking,
    _by_union,
    _by_shallow_copy,
    _by_keywords,
    _below_the_type,
)


async def check() -> None:
    """Raise AssertionError, with the law that is broken, when a handler can reach too far."""
    for vandal in VANDALS:
        await _check_vandal(vandal)
    await _check_identity_without_handlers()
    await _check_modify()
    await _check_no_memory()


async def _check_vandal(vandal: Vandal) -> None:
    registry = HookRegistry()
    kept: list[dict[str, Any]] = []
    spoiled: list[dict[str, Any]] = []

    async def witness(event: str, data: dict[str, Any]) -> HookResult:
        kept.append(data)
        _require(_same(data), f"{vandal.__name__}: the next handler sees the edit")
        return CONTINUE

    async def spoil(event: str, data: dict[str, Any]) -> HookResult:
        spoiled.append(data)
        vandal(data)
        return CONTINUE

    broken: list[BaseException] = []
    for priority, handler in enumerate((witness, spoil, witness, spoil, witness)):
        registry.register(EVENT, _reporting(handler, broken), priority, f"h{priority}")
    payload = _payload()
    result = await registry.emit(EVENT, payload)
    if broken:
        raise broken[0]
    for view in spoiled:
        view.clear()
    _require(len(kept) == 3, "every handler runs")
    _require(payload == _payload(), f"{vandal.__name__}: the caller's payload changes")
    _require_identity(result, payload)
    payload["input"]["rows"].clear()
    _require(all(map(_same, kept)), f"{vandal.__name__}: a view kept by a handler changes")


async def _check_identity_without_handlers() -> None:
    payload = _payload()
    _require_identity(await HookRegistry().emit(EVENT, payload), payload)


async def _check_modify() -> None:
    registry = HookRegistry()

    async def modify(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "n": 2})

    registry.register(EVENT, modify, 0, "modify")
    payload = _payload()
    result = await registry.emit(EVENT, payload)
    _require(payload == _payload(), "modify leaves the caller's payload alone")
    _require((result.data or {}).get("n") == 2, "modify reaches the result")
    untouched = {key: value for key, value in payload.items() if key != "n"}
    _require_identity(result, untouched)


async def _check_no_memory() -> None:
    """The same payload object, changed between two emits, is read again."""
    registry = HookRegistry()
    seen: list[int] = []

    async def read(event: str, data: dict[str, Any]) -> HookResult:
        seen.append(data["input"]["a"])
        return CONTINUE

    registry.register(EVENT, read, 0, "read")
    payload = _payload()
    await registry.emit(EVENT, payload)
    payload["input"]["a"] = 2
    await registry.emit(EVENT, payload)
    _require(seen == [1, 2], "a payload changed between two emits is read again")


def _reporting(handler: Any, broken: list[BaseException]) -> Any:
    """The registry survives a raising handler; this keeps what it raised."""

    async def call(event: str, data: dict[str, Any]) -> HookResult:
        try:
            return await handler(event, data)
        except Exception as error:
            broken.append(error)
            raise

    return call


def _same(view: dict[str, Any]) -> bool:
    expected = _payload()
    as_json = json.loads(json.dumps(view))
    return {key: as_json.get(key) for key in expected} == expected and all(
        view[key] == value for key, value in expected.items()
    )


def _require_identity(result: HookResult, payload: dict[str, Any]) -> None:
    data = result.data or {}
    for key, value in payload.items():
        _require(data.get(key) is value, f"`{key}` comes back as another object")


def _require(holds: bool, law: str) -> None:
    if not holds:
        raise AssertionError(f"isolation: {law}")
