"""Tests of the hook registry: names, timestamps, collecting, and what failing handlers announce."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator
from datetime import datetime, timedelta
from typing import Any

import pytest

from amplifier_core import HookRegistry, HookResult
from amplifier_core.correlation import reset_request_id
from amplifier_core.hooks import DEFAULT_TIMEOUT
from contract.doubles import Listener, deny, modify, raising


class BrokenValue:
    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise RuntimeError("unreadable")

    def __str__(self) -> str:
        return "broken"


class BrokenMapping(dict[str, Any]):
    def keys(self) -> Any:
        raise RuntimeError("unreadable")

    def __iter__(self) -> Any:
        raise RuntimeError("unreadable")

    def __str__(self) -> str:
        return "broken"


async def test_a_handler_without_a_name_is_numbered_after_its_function_or_class() -> None:
    registry = HookRegistry()

    async def watch(event: str, data: Any) -> None: ...

    registry.register("a:b", watch)
    registry.register("a:b", Listener())
    registry.register("a:b", watch, name="given")
    registry.register("a:b", watch, name="")

    assert registry.list_handlers("a:b") == {"a:b": ["watch-1", "Listener-2", "given", "watch-3"]}


async def test_an_event_is_stamped_with_the_time_it_was_emitted() -> None:
    heard = Listener()
    registry = HookRegistry()
    registry.register("a:b", heard)
    before = datetime.now().astimezone()

    await registry.emit("a:b", {"timestamp": "the caller's own"})

    stamp = datetime.fromisoformat(heard.data["timestamp"])
    assert stamp.utcoffset() == timedelta(0)
    assert before - timedelta(seconds=1) <= stamp <= datetime.now().astimezone()


async def test_a_collecting_caller_keeps_its_data_whatever_a_handler_does_to_its_own() -> None:
    registry = HookRegistry()
    seen: list[Any] = []

    async def spoil(event: str, data: dict[str, Any]) -> HookResult:
        seen.append(data["deep"]["n"])
        data["deep"]["n"] = "spoiled"
        data["more"] = True
        return HookResult(data={"from": event})

    registry.register("a:b", spoil)
    registry.register("a:b", spoil)
    data = {"deep": {"n": 1}}

    assert await registry.emit_and_collect("a:b", data) == [{"from": "a:b"}] * 2
    assert data == {"deep": {"n": 1}}
    assert seen == [1, 1]


async def test_data_that_is_no_dict_is_collected_about_as_it_is() -> None:
    registry = HookRegistry()
    heard = Listener(HookResult(data={"n": 1}))
    registry.register("a:b", heard)
    subject = object()

    assert await registry.emit_and_collect("a:b", subject) == [{"n": 1}]
    assert heard.data is subject


async def test_collecting_skips_answers_without_data_and_takes_those_of_any_action(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = HookRegistry()
    answers = [None, HookResult(), deny(data={"n": 1}), {"data": {"n": 2}}, modify({}), 42]
    for number, answer in enumerate(answers):
        registry.register("a:b", Listener(answer), name=f"h{number}")

    assert await registry.emit_and_collect("a:b", {}) == [{"n": 1}, {"n": 2}, {}]
    assert "event=a:b handler=h5" in caplog.text


@pytest.mark.parametrize("timeout", [1.0, None])
async def test_a_handler_that_fails_while_collecting_is_announced_and_skipped(
    timeout: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("hook:failed", heard)
    registry.register("a:b", raising(ValueError("boom")), name="bad", on_error="deny")
    registry.register("a:b", Listener(HookResult(data={"n": 1})))

    assert await registry.emit_and_collect("a:b", {}, timeout) == [{"n": 1}]

    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError
    facts = {key: heard.data[key] for key in ("event", "handler", "error", "denied")}
    assert facts["event"] == "a:b"
    assert (facts["handler"], facts["denied"]) == ("bad", True)
    assert "boom" in facts["error"]


async def test_a_handler_that_is_too_slow_while_collecting_is_skipped() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("hook:failed", heard)

    async def never(event: str, data: Any) -> None:
        await asyncio.Event().wait()

    registry.register("a:b", never, name="slow")
    registry.register("a:b", Listener(HookResult(data={"n": 1})))

    async with asyncio.timeout(120):
        assert await registry.emit_and_collect("a:b", {}, timeout=0.01) == [{"n": 1}]
    assert heard.data["handler"] == "slow"


async def test_a_listener_to_failures_that_fails_is_logged_and_not_announced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("hook:failed", raising(RuntimeError("worse")), name="worse")
    registry.register("hook:failed", heard)
    registry.register("a:b", raising(RuntimeError("bad")), name="bad")

    assert (await registry.emit("a:b", {})).action == "continue"

    assert [data["handler"] for _, data in heard.calls] == ["bad"]
    assert [record.getMessage() for record in caplog.records] == [
        "hook failed event=a:b handler=bad",
        "hook failed event=hook:failed handler=worse",
    ]


async def test_the_reason_of_a_failed_guard_names_it_the_event_and_the_error() -> None:
    registry = HookRegistry()
    registry.register("a:b", raising(RuntimeError("boom")), name="fence", on_error="deny")

    result = await registry.emit("a:b", {})

    assert result.action == "deny"
    assert result.reason is not None
    for part in ("fence", "a:b", "boom"):
        assert part in result.reason


def test_what_was_registered_can_be_undone_more_than_once_without_harm() -> None:
    registry = HookRegistry()
    listener = Listener()
    undo = registry.register("a:b", listener, name="same")
    registry.register("a:b", listener, name="same")

    undo()
    undo()

    assert registry.list_handlers("a:b") == {"a:b": ["same"]}
    assert registry.has_handlers("a:b")
    registry.unregister("same")
    assert registry.has_handlers("a:b") is False


def test_handlers_are_not_compared_with_each_other_when_one_is_removed() -> None:
    class Incomparable(Listener):
        def __eq__(self, other: object) -> bool:
            raise TypeError("cannot be compared")

        def __hash__(self) -> int:
            return 1

    registry = HookRegistry()
    registry.register("a:b", Incomparable(), name="first")
    undo = registry.register("a:b", Incomparable(), name="second")

    undo()

    assert registry.list_handlers("a:b") == {"a:b": ["first"]}


def test_removing_what_a_child_never_had_leaves_the_child_alone() -> None:
    parent, child = HookRegistry(), HookRegistry()
    child.inherit_guards(parent)
    undo = parent.register("a:b", Listener(), name="observer")

    undo()

    assert parent.list_handlers("a:b") == {"a:b": []}
    assert child.list_handlers("a:b") == {"a:b": []}
    assert not child.has_handlers("a:b")


def test_what_is_registered_wrongly_is_refused_in_words() -> None:
    registry = HookRegistry()
    odd: Any = True
    with pytest.raises(TypeError, match="priority must be an int, not bool"):
        registry.register("a:b", Listener(), odd)
    odd = "ignore"
    with pytest.raises(ValueError, match="on_error must be 'continue' or 'deny', not 'ignore'"):
        registry.register("a:b", Listener(), on_error=odd)

    assert registry.list_handlers() == {}


def test_the_defaults_of_registering_and_collecting_are_the_published_ones() -> None:
    register = inspect.signature(HookRegistry.register).parameters
    collect = inspect.signature(HookRegistry.emit_and_collect).parameters

    assert [register[name].default for name in ("priority", "name", "on_error")] == [
        0,
        None,
        "continue",
    ]
    assert register["timeout"].default == DEFAULT_TIMEOUT == 3600.0
    assert collect["timeout"].default == 1.0
    assert HookRegistry.on is HookRegistry.register


@pytest.mark.parametrize("data", [None, "text", 42, ["list"]])
async def test_without_a_listener_data_that_is_no_dict_comes_back_as_an_empty_one(
    data: Any,
) -> None:
    result = await HookRegistry().emit("a:b", data)

    assert (result.action, result.data) == ("continue", {})


async def test_a_handler_may_answer_with_anything_that_can_be_awaited() -> None:
    registry = HookRegistry()

    class Later:
        def __await__(self) -> Generator[Any, Any, HookResult]:
            yield from asyncio.sleep(0).__await__()
            return deny("later")

    def handler(event: str, data: Any) -> Later:
        return Later()

    registry.register("a:b", handler)

    result = await registry.emit("a:b", {})

    assert (result.action, result.reason) == ("deny", "later")


@pytest.mark.parametrize("timeout", [None, 5.0])
async def test_a_handler_with_a_deadline_hears_the_same_as_one_without(
    timeout: float | None,
) -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", heard, timeout=timeout)

    await registry.emit("a:b", {"n": 1})
    await registry.emit_and_collect("a:b", {"n": 2}, timeout)

    assert [(event, data["n"]) for event, data in heard.calls] == [("a:b", 1), ("a:b", 2)]


async def test_data_without_texts_for_keys_is_collected_about_with_texts() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", heard)

    await registry.emit_and_collect("a:b", {1: "one"})

    assert heard.data == {"1": "one"}


async def test_an_answer_to_no_request_is_not_given_an_id() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("llm:response", heard)
    reset_request_id()

    await registry.emit("llm:response", {})

    assert "request_id" not in heard.data


@pytest.mark.parametrize("value", [BrokenValue(), BrokenMapping()])
async def test_a_value_that_cannot_be_read_is_logged_for_debugging(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "amplifier_core")
    registry = HookRegistry()
    heard = Listener()
    registry.register("a:b", heard)

    await registry.emit("a:b", {"v": value})

    assert heard.data["v"] == "broken"
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * len(caplog.records)
    assert "unreadable" in caplog.text


async def test_a_registry_describes_its_handlers_in_the_order_they_run() -> None:
    parent, child = HookRegistry(), HookRegistry()
    parent.set_default_fields(session_id="parent")
    child.set_default_fields(session_id="child")
    child.inherit_guards(parent)
    parent.register("tool:pre", Listener(), 5, "guard", on_error="deny")
    child.register("tool:pre", Listener(), 1, "observer")
    child.register("tool:post", Listener(), name="gone")()

    assert child.describe() == {
        "tool:pre": [
            {"name": "observer", "priority": 1, "guard": False, "owner": "child"},
            {"name": "guard", "priority": 5, "guard": True, "owner": "parent"},
        ]
    }
    assert parent.describe()["tool:pre"][0]["owner"] == "parent"
