"""Tests of the model call and the tool call that running code and its events belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import UUID

import pytest

from amplifier_core import HookRegistry
from amplifier_core.correlation import (
    CORRELATED_EVENTS,
    INTERIM_EVENTS,
    REQUEST_EVENTS,
    REQUEST_ID_FIELD,
    TERMINAL_EVENTS,
    claim_tool_call,
    current_request_id,
    current_tool_call,
    current_tool_call_id,
    new_request_id,
    reset_request_id,
    resolve_request_id,
    tool_call,
)


@pytest.fixture(autouse=True)
def no_open_call() -> Iterator[None]:
    reset_request_id()
    yield
    reset_request_id()


def test_the_events_of_a_call_are_the_published_ones() -> None:
    assert REQUEST_ID_FIELD == "request_id"
    assert set(REQUEST_EVENTS) == {"llm:request"}
    assert set(TERMINAL_EVENTS) == {"llm:response", "provider:error"}
    assert set(INTERIM_EVENTS) == {"provider:retry", "provider:throttle"}
    assert CORRELATED_EVENTS == REQUEST_EVENTS | TERMINAL_EVENTS | INTERIM_EVENTS


def test_a_fresh_id_is_a_uuid() -> None:
    first, second = new_request_id(), new_request_id()

    assert str(UUID(first)) == first
    assert first != second


@pytest.mark.parametrize("end", sorted(TERMINAL_EVENTS))
def test_all_events_of_a_call_share_one_id_until_it_ends(end: str) -> None:
    opened = resolve_request_id("llm:request")

    assert opened is not None
    assert current_request_id() == opened
    assert resolve_request_id("provider:retry") == opened
    assert resolve_request_id("provider:throttle") == opened
    assert resolve_request_id(end) == opened
    assert current_request_id() is None


@pytest.mark.parametrize("event", sorted(TERMINAL_EVENTS | INTERIM_EVENTS))
def test_without_an_open_call_there_is_nothing_to_add(event: str) -> None:
    assert resolve_request_id(event) is None


def test_an_explicit_id_always_wins() -> None:
    assert resolve_request_id("llm:request", "a") == "a"
    assert resolve_request_id("provider:retry", "b") == "b"
    assert current_request_id() == "b"
    assert resolve_request_id("llm:response", "c") == "c"
    assert current_request_id() is None


def test_an_event_of_no_call_keeps_what_it_has() -> None:
    resolve_request_id("llm:request", "a")

    assert resolve_request_id("llm:stream_block_delta", "other") == "other"
    assert resolve_request_id("tool:pre") is None
    assert current_request_id() == "a"


async def test_concurrent_calls_do_not_mix_their_ids() -> None:
    started = asyncio.Barrier(2)

    async def call() -> tuple[str | None, str | None]:
        opened = resolve_request_id("llm:request")
        await started.wait()
        return opened, resolve_request_id("llm:response")

    async with asyncio.timeout(120):
        first, second = await asyncio.gather(call(), call())

    assert first[0] == first[1]
    assert second[0] == second[1]
    assert first != second


async def announce(
    registry: HookRegistry, event: str, call_id: str | None, name: str = "t"
) -> None:
    await registry.emit(event, {"tool_name": name, "tool_call_id": call_id})


def test_what_a_loop_runs_for_a_tool_call_belongs_to_it() -> None:
    assert (current_tool_call(), current_tool_call_id()) == (None, None)

    with tool_call("delegate", "outer"):
        with tool_call("bash", "inner"):
            assert current_tool_call_id() == "inner"
        call = current_tool_call()
        assert call is not None
        assert (call.tool_name, call.tool_call_id) == ("delegate", "outer")

    assert current_tool_call_id() is None


@pytest.mark.parametrize("end", ["tool:post", "tool:error"])
async def test_a_tool_call_is_known_by_its_events_where_the_loop_does_not_say(end: str) -> None:
    registry = HookRegistry()

    await announce(registry, "tool:pre", "1")
    assert current_tool_call_id() == "1"
    await announce(registry, end, "1")
    assert current_tool_call_id() is None
    await announce(registry, end, "1")
    assert current_tool_call_id() is None


async def test_each_task_has_its_own_tool_call() -> None:
    registry, both_open = HookRegistry(), asyncio.Barrier(2)

    async def run(call_id: str) -> str | None:
        await announce(registry, "tool:pre", call_id)
        await both_open.wait()
        return current_tool_call_id()

    async with asyncio.timeout(120):
        assert await asyncio.gather(run("1"), run("2")) == ["1", "2"]
    assert current_tool_call_id() is None


async def test_a_call_of_a_child_is_inside_of_the_call_that_started_the_child() -> None:
    parent, child = HookRegistry(), HookRegistry()

    await announce(parent, "tool:pre", "1", "delegate")
    await announce(child, "tool:pre", "2")
    assert current_tool_call_id() == "2"
    await announce(child, "tool:post", "2")
    assert current_tool_call_id() == "1"


async def test_a_call_after_a_denied_one_is_not_inside_of_it() -> None:
    registry = HookRegistry()

    await announce(registry, "tool:pre", "denied")
    await announce(registry, "tool:pre", "next")
    await announce(registry, "tool:post", "next")

    assert current_tool_call_id() is None


async def test_a_call_that_is_announced_without_an_id_is_not_taken_for_the_one_before() -> None:
    registry = HookRegistry()

    await announce(registry, "tool:pre", "1")
    await announce(registry, "tool:pre", None)
    assert current_tool_call_id() is None
    await registry.emit("tool:pre", "no mapping")
    assert current_tool_call_id() is None


async def test_events_do_not_end_a_call_that_the_loop_opened() -> None:
    registry = HookRegistry()

    with tool_call("t", "1"):
        opened = current_tool_call()
        await announce(registry, "tool:pre", "1")
        await announce(registry, "tool:post", "1")
        assert current_tool_call() is opened


def test_a_wrapper_gets_the_id_of_the_call_once_and_only_for_its_tool() -> None:
    assert claim_tool_call("bash", by="recorder") is None

    with tool_call("bash", "1"):
        assert claim_tool_call("edit", by="recorder") is None
        assert claim_tool_call("bash", by="recorder") == "1"
        assert claim_tool_call("bash", by="recorder") is None
        assert claim_tool_call("bash", by="tracer") == "1"
