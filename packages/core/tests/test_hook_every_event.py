"""Tests of handlers that hear every event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import HookRegistry, HookResult
from contract.doubles import Listener, deny, modify, raising
from contract.requirements import requirement


@requirement("HOOK-56")
async def test_a_handler_of_every_event_hears_all_of_them_by_name() -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("*", heard)

    await registry.emit("a:b", {"n": 1})
    await registry.emit("never:registered", {"n": 2})
    await registry.emit_and_collect("c:d", {"n": 3})

    assert [(event, data["n"]) for event, data in heard.calls] == [
        ("a:b", 1),
        ("never:registered", 2),
        ("c:d", 3),
    ]


@requirement("HOOK-56")
async def test_one_order_contains_the_handlers_of_the_event_and_of_every_event() -> None:
    registry = HookRegistry()
    order: list[str] = []

    def noting(name: str) -> Callable[[str, Any], None]:
        def note(event: str, data: Any) -> None:
            order.append(name)

        return note

    registry.register("a:b", noting("third"), 5)
    registry.register("*", noting("fourth"), 5)
    registry.register("a:b", noting("fifth"), 5)
    registry.register("*", noting("first"), -1)
    registry.register("a:b", noting("second"), 0)

    await registry.emit("a:b", {})

    assert order == ["first", "second", "third", "fourth", "fifth"]


@requirement("HOOK-56")
async def test_a_handler_of_every_event_may_answer() -> None:
    registry = HookRegistry()
    registry.register("*", Listener(modify({"n": 2})), name="editor")
    heard = Listener()
    registry.register("a:b", heard, 1)

    edited = await registry.emit("a:b", {"n": 1})
    registry.register("*", Listener(deny("not now")), 2, "fence")
    denied = await registry.emit("c:d", {})

    assert (heard.data["n"], edited.data) == (2, {"n": 2})
    assert (denied.action, denied.reason, denied.denied_by) == ("deny", "not now", "fence")


def test_it_is_listed_under_its_own_key_and_with_every_event_that_has_others() -> None:
    registry = HookRegistry()
    registry.register("a:b", Listener(), name="own")
    registry.register("*", Listener(), -1, "all")

    assert registry.list_handlers() == {"a:b": ["all", "own"], "*": ["all"]}
    assert registry.list_handlers("c:d") == {"c:d": ["all"]}
    assert registry.has_handlers("c:d")


def test_it_leaves_every_event_when_it_is_removed() -> None:
    registry = HookRegistry()
    undo = registry.register("*", Listener(), name="undone")
    registry.register("*", Listener(), name="named")
    registry.register("a:b", Listener(), name="own")

    undo()
    undo()
    registry.unregister("named")

    assert registry.list_handlers() == {"*": [], "a:b": ["own"]}
    assert not registry.has_handlers("c:d")


async def test_a_guard_of_every_event_guards_the_children_too() -> None:
    parent = HookRegistry()
    child = HookRegistry()
    child.inherit_guards(parent)
    parent.register("*", Listener(), name="observer")
    undo = parent.register("*", raising(RuntimeError("boom")), name="guard", on_error="deny")
    child.register("a:b", Listener(), name="own")

    denied = await child.emit("a:b", {})

    assert (denied.action, denied.denied_by) == ("deny", "guard")
    assert child.list_guards() == {"a:b": ["guard"], "*": ["guard"]}
    assert parent.list_guards() == {"*": ["guard"]}
    child.unregister("guard")
    assert child.list_handlers("c:d") == {"c:d": ["guard"]}
    undo()
    assert child.list_handlers("c:d") == {"c:d": []}
    assert child.list_guards() == {}


async def test_a_handler_of_every_event_that_always_fails_is_announced_once_per_emit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = HookRegistry()
    heard = Listener()
    registry.register("hook:failed", heard)
    registry.register("*", raising(RuntimeError("boom")), name="broken")

    result = await registry.emit("a:b", {})

    assert result.action == "continue"
    assert [(data["event"], data["handler"]) for _, data in heard.calls] == [("a:b", "broken")]
    assert [record.getMessage() for record in caplog.records] == [
        "hook failed event=a:b handler=broken",
        "hook failed event=hook:failed handler=broken",
    ]


async def test_what_is_registered_while_an_event_is_emitted_hears_the_next_one() -> None:
    registry = HookRegistry()
    late = Listener()

    async def register(event: str, data: dict[str, Any]) -> HookResult:
        registry.register("*", late, 1)
        return HookResult()

    registry.register("a:b", register)

    await registry.emit("a:b", {})
    assert late.calls == []
    await registry.emit("c:d", {})
    assert len(late.calls) == 1
