"""Tests of the ids that tie the events of one model call together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import UUID

import pytest

from amplifier_core.correlation import (
    CORRELATED_EVENTS,
    INTERIM_EVENTS,
    REQUEST_EVENTS,
    REQUEST_ID_FIELD,
    TERMINAL_EVENTS,
    current_request_id,
    new_request_id,
    reset_request_id,
    resolve_request_id,
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

    async with asyncio.timeout(5):
        first, second = await asyncio.gather(call(), call())

    assert first[0] == first[1]
    assert second[0] == second[1]
    assert first != second
