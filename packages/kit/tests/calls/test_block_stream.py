"""A streamed answer on its way to the hooks."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from amplifier_core.hooks import HookRegistry
from amplifier_core.testing import EventRecorder
from amplifier_kit.calls.block_stream import (
    ABORTED,
    BLOCK_DELTA,
    BLOCK_END,
    BLOCK_START,
    MOST_ANNOUNCED_CALLS,
    BlockStream,
)


class Deaf(EventRecorder):
    """Hooks that have no handlers."""

    def has_handlers(self, event: str) -> bool:
        return False


def without_id(recorder: EventRecorder) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, {key: value for key, value in data.items() if key != "request_id"})
        for name, data in recorder.events
    ]


async def test_a_block_is_announced_from_start_to_end() -> None:
    recorder = EventRecorder()
    stream = BlockStream(recorder)

    await stream.start(0, "text")
    await stream.delta(0, "a")
    await stream.delta(0, "")
    await stream.delta(0, "b")
    await stream.end(0)

    block = {"block_index": 0, "block_type": "text"}
    assert without_id(recorder) == [
        (BLOCK_START, block),
        (BLOCK_DELTA, {**block, "sequence": 0, "text": "a"}),
        (BLOCK_DELTA, {**block, "sequence": 1, "text": "b"}),
        (BLOCK_END, block),
    ]
    assert {data["request_id"] for _, data in recorder.events} == {stream.request_id}
    assert UUID(stream.request_id).version == 4


async def test_the_start_of_a_call_names_its_tool() -> None:
    recorder = EventRecorder()

    await BlockStream(recorder).start(2, "tool_use", "read_file")

    [(_, data)] = recorder.events
    assert (data["block_type"], data["name"]) == ("tool_use", "read_file")


async def test_open_blocks_count_apart_and_end_in_order() -> None:
    recorder = EventRecorder()
    stream = BlockStream(recorder)
    await stream.start(1, "text")
    await stream.start(0, "thinking")
    await stream.delta(1, "x")
    await stream.delta(0, "y")

    await stream.end_all()
    await stream.end(0)

    sequences = [data["sequence"] for _, data in recorder.get_events(BLOCK_DELTA)]
    ended = [data["block_index"] for _, data in recorder.get_events(BLOCK_END)]
    assert (sequences, ended) == ([0, 0], [0, 1])


async def test_only_an_answer_that_was_seen_is_aborted() -> None:
    recorder = EventRecorder()
    unseen, seen = BlockStream(recorder), BlockStream(recorder)
    await unseen.start(0, "text")
    await seen.start(0, "text")
    await seen.delta(0, "a")

    await unseen.abort(ValueError("one"))
    await seen.abort(asyncio.CancelledError())

    [(_, data)] = recorder.get_events(ABORTED)
    assert data["request_id"] == seen.request_id
    assert data["error"]["type"] == "CancelledError"


async def test_nothing_is_built_for_nobody() -> None:
    hooks = Deaf()
    stream = BlockStream(hooks)

    await stream.start(0, "text")
    await stream.delta(0, "a")
    await stream.end(0)
    await stream.abort(ValueError("one"))

    assert hooks.events == []


async def test_the_kernels_hooks_are_asked_whether_they_listen() -> None:
    hooks, recorder = HookRegistry(), EventRecorder()
    hooks.register(BLOCK_DELTA, recorder.record)
    stream = BlockStream(hooks)

    await stream.start(0, "text")
    await stream.delta(0, "a")

    assert [name for name, _ in recorder.events] == [BLOCK_DELTA]


async def test_of_thousands_of_calls_only_the_first_are_announced() -> None:
    recorder = EventRecorder()
    stream = BlockStream(recorder)

    for index in range(1_000):
        await stream.end_all()
        await stream.start(index, "tool_use", "t")
    await stream.start(1_000, "text")
    await stream.delta(1_000, "words")
    await stream.end_all()

    names = [name for name, _ in recorder.events]
    assert names.count(BLOCK_START) == MOST_ANNOUNCED_CALLS + 1
    assert names.count(BLOCK_END) == MOST_ANNOUNCED_CALLS + 1
    assert names.count(BLOCK_DELTA) == 1


async def test_halves_of_a_character_are_announced_when_they_are_whole() -> None:
    recorder = EventRecorder()
    stream = BlockStream(recorder)

    await stream.start(0, "text")
    for piece in ("well \ud83d", "\ude00 a\x00b", "\ud83d"):
        await stream.delta(0, piece)
    await stream.end(0)

    texts = [data["text"] for name, data in recorder.events if name == BLOCK_DELTA]
    assert texts == ["well ", "\U0001f600 a\u2400b", "\ufffd"]
    assert recorder.events[-1][0] == BLOCK_END


async def test_a_piece_that_is_no_text_is_refused() -> None:
    stream = BlockStream(EventRecorder())
    await stream.start(0, "text")

    with pytest.raises(TypeError, match="list"):
        stream.delta(0, cast("str", ["a"]))
