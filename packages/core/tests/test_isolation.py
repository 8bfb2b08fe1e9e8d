"""Tests of the isolated views: for any data JSON-safe, equal for all and shared with nobody."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from amplifier_core import HookRegistry, HookResult, ToolResult
from contract.doubles import Listener, modify
from contract.requirements import requirement


class Model(BaseModel):
    inner: list[int] = []
    when: datetime = datetime(2030, 1, 1, tzinfo=UTC)


class OldModel:
    """Dumps as models did before there were modes."""

    def model_dump(self) -> dict[str, Any]:
        return {"old": [1]}


class BrokenModel:
    def model_dump(self, mode: str = "python") -> dict[str, Any]:
        raise RuntimeError("cannot be dumped")

    def __str__(self) -> str:
        return "broken model"


class ListModel:
    """Dumps to something that is no dict."""

    def model_dump(self, mode: str = "python") -> Any:
        return [1, 2]

    def __str__(self) -> str:
        return "list model"


class Shade(str, Enum):  # noqa: UP042 - its str() is not its value, which is the point
    RED = "red"


class Mute:
    """Cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(str):
    pass


class Point(NamedTuple):
    x: Any
    y: Any


ODD: list[Any] = [
    Decimal("1.5"),
    datetime(2030, 1, 1, tzinfo=UTC),
    PurePosixPath("/tmp/x"),
    b"bytes",
    {1, 2},
    Colour.RED,
    Level.HIGH,
    Word("word"),
    OldModel(),
    BrokenModel(),
    ListModel(),
    Mute(),
    Mute,
    Model(inner=[1, 2]),
    ToolResult(output={"deep": [1]}),
    RuntimeError("boom"),
    float("nan"),
    float("-inf"),
    1 + 2j,
    range(3),
    MappingProxyType({"read": ["only"]}),
    OrderedDict(a=[1]),
    Point(1, [2]),
    print,
]
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(ODD)
)
keys = st.text(max_size=3) | st.integers(0, 3) | st.sampled_from([None, True, 1.5, Colour.RED, ()])
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Point, inner, inner)
        | st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=8,
)
payloads = st.dictionaries(keys, values, max_size=4)


def spoil(container: Any) -> None:
    """Change everything that can be changed in place."""
    values: list[Any] = [*(container.values() if type(container) is dict else container)]
    for value in values:
        if isinstance(value, dict | list):
            spoil(value)
    container.clear()


def views_of(data: Any, number: int = 3) -> list[Any]:
    """Give what `number` handlers of one event see, each spoiling its view after a look."""
    seen: list[Any] = []

    def look(event: str, view: Any) -> None:
        seen.append(copy.deepcopy(view))
        spoil(view)

    registry = HookRegistry()
    for _ in range(number):
        registry.register("a:b", look)
    asyncio.run(registry.emit("a:b", data))
    return seen


@requirement("HOOK-41")
@given(payloads)
def test_any_data_is_seen_as_json_and_by_all_handlers_alike(data: dict[Any, Any]) -> None:
    first, *others = views_of(data)

    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert others == [first, first]


@requirement("HOOK-40")
@given(payloads)
def test_no_view_shares_anything_with_the_data(data: dict[Any, Any]) -> None:
    before = repr(data)

    views_of(data)

    assert repr(data) == before


@requirement("HOOK-42")
@given(payloads)
def test_any_data_comes_back_as_the_callers_own_objects(data: dict[Any, Any]) -> None:
    registry = HookRegistry()
    registry.register("a:b", Listener())

    result = asyncio.run(registry.emit("a:b", data))

    assert result.data is not None
    assert [key for key in result.data if key != "timestamp"] == list(data)
    assert all(result.data[key] is value for key, value in data.items())


@requirement("HOOK-42")
@given(st.dictionaries(st.text("abc", max_size=2), values, max_size=4))
def test_an_edit_that_copies_everything_keeps_the_callers_own_objects(data: dict[str, Any]) -> None:
    registry = HookRegistry()

    def copy_all(event: str, view: dict[str, Any]) -> HookResult:
        return modify({**copy.deepcopy(view), "edit": "new"})

    registry.register("x:y", copy_all)
    registry.register("x:y", copy_all)

    result = asyncio.run(registry.emit("x:y", data))

    assert result.data is not None
    assert result.data["edit"] == "new"
    assert all(result.data[key] is value for key, value in data.items())


@requirement("HOOK-41")
@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (float("inf"), "inf"),
        (1.5, 1.5),
        (Level.HIGH, 3),
        (Word("word"), "word"),
        (Shade.RED, "red"),
        (Colour.RED, "Colour.RED"),
        (OldModel(), {"old": [1]}),
        (BrokenModel(), "broken model"),
        (ListModel(), "list model"),
        (Model(), {"inner": [], "when": "2030-01-01T00:00:00Z"}),
        (Point(1, [2]), [1, [2]]),
        (MappingProxyType({1: [2]}), {"1": [2]}),
        ([(1,), Decimal(2)], [[1], "2"]),
    ],
)
def test_each_odd_value_has_its_plain_equivalent(value: Any, seen: Any) -> None:
    view = views_of({"v": value, "l": [value]}, 1)[0]

    assert (view["v"], view["l"]) == (seen, [seen])
    assert type(view["v"]) is type(seen)


def test_a_number_with_decimals_of_its_own_class_is_seen_as_a_plain_one() -> None:
    class Metres(float):
        pass

    view = views_of({"far": Metres(1.5), "lost": Metres("nan")}, 1)[0]

    assert (view["far"], type(view["far"]), view["lost"]) == (1.5, float, "nan")


def test_what_cannot_be_printed_is_seen_by_its_class() -> None:
    view = views_of({"v": Mute(), "k": {Mute(): 1}}, 1)[0]

    assert "Mute object at" in view["v"]
    assert "Mute object at" in next(iter(view["k"]))


def test_a_class_is_shown_as_text_and_not_asked_to_dump_itself() -> None:
    class Static:
        @staticmethod
        def model_dump(**_: Any) -> dict[str, Any]:
            return {"dumped": True}

    view = views_of({"v": Model, "s": Static}, 1)[0]

    assert (view["v"], view["s"]) == (str(Model), str(Static))


def test_a_value_that_does_not_dump_itself_is_shown_as_text_without_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "amplifier_core")

    view = views_of({"v": Decimal(2)}, 1)[0]

    assert view["v"] == "2"
    assert caplog.text == ""


class Unreadable(Mapping[str, Any]):
    """A mapping that is no longer connected to what it maps."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("connection lost")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1

    def __str__(self) -> str:
        return "unreadable"


async def test_a_mapping_that_cannot_be_read_is_shown_as_text() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", heard)

    await registry.emit("a:b", {"v": Unreadable()})

    assert heard.data["v"] == "unreadable"


async def test_the_caller_may_change_its_data_while_a_handler_waits() -> None:
    data = {"list": [1]}
    registry = HookRegistry()
    heard = Listener()

    async def wait(event: str, view: dict[str, Any]) -> None:
        data["list"].append(2)
        await asyncio.sleep(0)

    registry.register("a:b", wait)
    registry.register("a:b", heard)

    await registry.emit("a:b", data)

    assert heard.data["list"] == [1]


async def test_a_handler_cannot_change_its_edit_after_giving_it() -> None:
    mine: dict[str, Any] = {"list": [1], "nested": {"list": [1]}}
    registry = HookRegistry()
    registry.register("a:b", Listener(modify(mine)))

    result = await registry.emit("a:b", {})
    mine["list"].append(2)
    mine["nested"]["list"].append(2)

    assert result.data == {"list": [1], "nested": {"list": [1]}}


async def test_a_handler_cannot_change_what_it_gave_in_a_tuple() -> None:
    held = [1]
    registry = HookRegistry()
    registry.register("a:b", Listener(modify({"pair": (held, held)})))

    result = await registry.emit("a:b", {})
    held.append(2)

    assert result.data is not None
    assert list(result.data["pair"]) == [[1], [1]]


async def test_an_edit_of_data_that_is_no_dict_takes_its_place() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", Listener(modify({"n": [1]})))
    registry.register("a:b", heard, 1)

    result = await registry.emit("a:b", "opaque")

    assert heard.data == {"n": [1]}
    assert result.data == {"n": [1]}


def test_a_key_is_seen_by_its_text_and_not_by_how_it_prints() -> None:
    view = views_of({"k": {Shade.RED: 1, Word("word"): 2, 3: "three", None: [4]}}, 1)[0]

    assert view["k"] == {"red": 1, "word": 2, "3": "three", "None": [4]}
    assert {type(key) for key in view["k"]} == {str}


async def test_an_edit_keeps_the_callers_own_objects_and_the_handlers_for_the_rest() -> None:
    own, mine = ToolResult(output={"n": 1}), ToolResult(output={"n": 2})
    registry = HookRegistry()

    async def edit(event: str, data: dict[Any, Any]) -> HookResult:
        answer = modify({**data, "mine": mine, "when": None})
        by_hand: Any = answer.data
        by_hand[7] = "seven"
        return answer

    registry.register("a:b", edit)

    result = await registry.emit("a:b", {"own": own, "when": 1})

    assert result.data is not None
    assert result.data["own"] is own
    assert result.data["mine"] is mine
    assert (result.data["7"], result.data["when"]) == ("seven", None)


def test_a_value_that_presents_itself_is_asked_for_that_first() -> None:
    class Presented:
        def safe_hook_presentation(self) -> dict[str, Any]:
            return {"shown": True}

        def model_dump(self, mode: str = "python") -> dict[str, Any]:
            return {"dumped": mode}

    class Dumped:
        safe_hook_presentation = "not callable"

        def model_dump(self, mode: str = "python") -> dict[str, Any]:
            return {"dumped": mode}

    view = views_of({"p": Presented(), "d": Dumped()}, 1)[0]

    assert (view["p"], view["d"]) == ({"shown": True}, {"dumped": "json"})


def test_data_that_contains_itself_is_refused_by_name() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(ValueError, match="Circular reference detected"):
        views_of({"v": endless}, 1)
