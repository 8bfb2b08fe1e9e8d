"""A continued walk gives the same result as a walk from the beginning."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.llm_errors import ContextLengthError
from amplifier_module_contexts.compaction import Sweep
from amplifier_module_contexts.config import MemoryConfig
from amplifier_module_contexts.context import FittingContext
from amplifier_module_contexts.history import History

Message = dict[str, Any]


def _saying(role: str, length: int) -> Message:
    return {"role": role, "content": "x" * length}


def _calling(call_id: str) -> Message:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": call_id, "tool": "f"}]}


def _returning(call_id: str, length: int) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": "y" * length}


LENGTHS = st.integers(min_value=0, max_value=2_000)
IDS = st.sampled_from(["a", "b", "c"])
MESSAGE = st.one_of(
    st.builds(_saying, st.sampled_from(["system", "user", "user", "assistant"]), LENGTHS),
    st.builds(_calling, IDS),
    st.builds(_returning, IDS, LENGTHS),
)
# How many messages come before the next request, and the room it has.
REQUESTS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1_000, 4_000])), max_size=12)


@given(st.lists(MESSAGE, max_size=40), REQUESTS)
def test_the_walk_does_not_depend_on_how_often_it_was_interrupted(
    messages: list[Message], requests: list[tuple[int, int]]
) -> None:
    config = MemoryConfig(truncate_chars=100)
    growing = History([])
    carried_on = Sweep(growing, config, 10)
    for count, room in requests:
        growing.messages.extend(messages[len(growing.messages) :][:count])
        growing.measure()
        fresh = History(list(growing.messages))
        fresh.measure()

        assert carried_on.walk(room) == Sweep(fresh, config, 10).walk(room)
        assert growing.units.all == fresh.units.all


@given(st.lists(MESSAGE, max_size=40), REQUESTS)
def test_a_message_is_the_same_object_in_every_view_that_shows_it_the_same_way(
    messages: list[Message], requests: list[tuple[int, int]]
) -> None:
    async def check() -> None:
        context = FittingContext(MemoryConfig(truncate_chars=100))
        before: dict[str, Message] = {}
        waiting = iter(messages)
        for count, room in requests:
            for _, message in zip(range(count), waiting, strict=False):
                await context.add_message({**message, "metadata": len(context.messages)})
            try:
                view = await context.get_messages_for_request(token_budget=room // 4)
            except ContextLengthError:
                continue
            shown = {repr(message): message for message in view}
            assert all(before.get(key, each) is each for key, each in shown.items())
            before = shown

    asyncio.run(check())


def test_only_what_is_new_is_walked(monkeypatch: Any) -> None:
    history = History([_saying("user", 100) for _ in range(500)])
    history.measure()
    sweep = Sweep(history, MemoryConfig(), 0)
    sweep.walk(2_000)
    looked_at: list[int] = []
    monkeypatch.setattr(sweep, "excess", lambda index: looked_at.append(index) or 0)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - the position of a message

    for _ in range(100):
        history.messages.append(_saying("user", 100))
        history.measure()
        sweep.walk(2_000)

    assert min(looked_at) > 450
    assert len(looked_at) < 400


def test_a_history_that_was_cut_from_outside_is_walked_anew() -> None:
    history = History([_saying("user", 100) for _ in range(50)])
    history.measure()
    sweep = Sweep(history, MemoryConfig(), 0)
    assert sweep.walk(2_000).oldest > 0

    del history.messages[3:]
    history.measure()

    assert sweep.walk(2_000).oldest == 0
    assert history.restarts == 1
