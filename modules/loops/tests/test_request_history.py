"""Tests of preparing a history for requests: remembered work never shows, whatever changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from amplifier_core.history import INTERRUPTED
from amplifier_kit.history_repair import Repair
from amplifier_module_loops.request_history import RequestHistory
from contract.requirements import requirement

Stored = dict[str, Any]
Change = Callable[[list[Stored]], object]


def says(role: str, text: str) -> Stored:
    return {"role": role, "content": text}


def calls(ids: list[str]) -> Stored:
    blocks: list[Any] = [{"type": "text", "text": "I will"}]
    blocks += [{"type": "tool_call", "id": each, "name": "t", "input": {}} for each in ids]
    made: list[Any] = [{"id": each, "tool": "t", "arguments": {}} for each in ids]
    return {"role": "assistant", "content": blocks, "tool_calls": made}


def result(call_id: str, text: str = "done") -> Stored:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def results(ids: list[str]) -> Stored:
    blocks = [{"type": "tool_result", "tool_call_id": each, "output": "done"} for each in ids]
    return {"role": "user", "content": blocks}


ids = st.sampled_from(["a", "b"])
some = st.lists(ids, min_size=1, max_size=2, unique=True)
words = st.text("xy", max_size=2)
places = st.integers(0, 9)
messages = st.one_of(
    st.builds(says, st.sampled_from(["user", "assistant"]), words),
    st.builds(calls, some),
    st.builds(result, ids, words),
    st.builds(results, some),
)


def append(new: list[Stored]) -> Change:
    return lambda history: history.extend(new)


def insert(new: Stored, place: int) -> Change:
    return lambda history: history.insert(place, new)


def truncate(place: int) -> Change:
    def change(history: list[Stored]) -> None:
        del history[place:]

    return change


def remove(place: int) -> Change:
    def change(history: list[Stored]) -> None:
        del history[place : place + 1]

    return change


def change_one(place: int, edit: Callable[[Stored], object]) -> Change:
    """Set a field of one of the newest four messages, or of a copy that replaces an older one."""

    def change(history: list[Stored]) -> None:
        if 0 <= place < len(history) - 4:
            history[place] = copy.deepcopy(history[place])
        for message in history[place : place + 1]:
            edit(message)

    return change


def rewrite(place: int, word: str) -> Change:
    """Change the text of a message."""

    def edit(message: Stored) -> None:
        content = message["content"]
        new = {"type": "text", "text": word}
        message["content"] = [new, *content[1:]] if isinstance(content, list) else word

    return change_one(place, edit)


def note(place: int, word: str) -> Change:
    """Change what is kept beside a message."""

    def edit(message: Stored) -> None:
        message["metadata"] = {"n": word}

    return change_one(place, edit)


changes = st.one_of(
    st.builds(append, st.lists(messages, max_size=5)),
    st.builds(insert, messages, places),
    st.builds(truncate, places),
    st.builds(remove, places),
    st.builds(rewrite, places, words),
    st.builds(note, places, words),
)


@requirement("LAW-26")
@given(st.lists(changes, max_size=6))
def test_what_was_prepared_before_never_shows_in_a_request(sequence: list[Change]) -> None:
    stored: list[Stored] = []
    remembering = RequestHistory()

    for change in sequence:
        change(stored)
        before = copy.deepcopy(stored)
        prepared, _ = remembering.prepare(stored)

        assert prepared == RequestHistory().prepare(before)[0]
        assert stored == before
        prepared.clear()


@requirement("LAW-26")
def test_a_call_added_to_a_message_that_was_checked_is_answered_too() -> None:
    stored = [says("user", "hi"), calls(["a"]), result("a")]
    history = RequestHistory()
    history.prepare(stored)

    made = stored[1]["tool_calls"]
    stored[1]["tool_calls"] = [*made, {"id": "b", "tool": "t", "arguments": {}}]
    prepared, repairs = history.prepare(stored)

    assert [message.tool_call_id for message in prepared] == [None, None, "a", "b"]
    assert repairs == [Repair("answered", "b")]


def test_a_message_that_cannot_be_sent_is_refused_every_time() -> None:
    """A history with a hole in it would be worse than an error."""
    stored = [says("user", "hi"), says("nobody", "odd")]
    history = RequestHistory()

    for _ in range(2):
        with pytest.raises(ValidationError):
            history.prepare(stored)
    stored[1]["role"] = "assistant"
    prepared, _ = history.prepare(stored)

    assert [message.role for message in prepared] == ["user", "assistant"]


def test_a_late_message_that_cannot_be_sent_takes_nothing_with_it() -> None:
    stored = [says("user", "hi")]
    history = RequestHistory()
    history.prepare(stored)

    with pytest.raises(ValidationError):
        history.prepare([*stored, says("nobody", "odd")])
    prepared, _ = history.prepare([*stored, says("assistant", "hello")])

    assert [message.content for message in prepared] == ["hi", "hello"]


def test_a_refused_history_is_not_taken_for_one_that_was_sent() -> None:
    stored = [says("user", str(number)) for number in range(9)]
    history = RequestHistory()
    history.prepare(stored)

    stored[0] = says("user", "changed")
    with pytest.raises(ValidationError):
        history.prepare([*stored, says("nobody", "odd")])
    prepared, _ = history.prepare(stored)

    assert [message.content for message in prepared] == ["changed", *map(str, range(1, 9))]


def test_each_repair_is_reported_once() -> None:
    stored = [says("user", "hi"), calls(["a"]), says("user", "still there?")]
    history = RequestHistory()

    assert history.prepare(stored)[1] == [Repair("answered", "a")]
    assert history.prepare(stored)[1] == []
    stored += [calls(["b"]), says("user", "hello?")]
    assert history.prepare(stored)[1] == [Repair("answered", "b")]
    stored[0] = says("user", "edited")
    assert history.prepare(stored)[1] == []


def test_a_result_that_comes_late_takes_the_place_of_the_one_made_up_for_it() -> None:
    stored = [calls(["a"])]
    history = RequestHistory()
    assert history.prepare(stored)[0][1].content == INTERRUPTED

    prepared, repairs = history.prepare([*stored, result("a", "late")])

    assert [message.content for message in prepared[1:]] == ["late"]
    assert repairs == []


def test_messages_that_did_not_change_are_not_made_again() -> None:
    stored = [says("user", "hi"), says("assistant", "hello")]
    history = RequestHistory()
    first, _ = history.prepare(stored)

    second, _ = history.prepare([*stored, says("user", "more")])

    assert second[0] is first[0]
    assert second[1] is first[1]
    assert len(first) == 2


def test_a_field_that_is_set_is_noticed_among_the_newest_four() -> None:
    stored = [says("user", str(number)) for number in range(9)]
    history = RequestHistory()
    history.prepare(stored[:7])
    history.prepare(stored)

    stored[5]["content"] = "changed"
    prepared, _ = history.prepare(stored)

    assert [message.content for message in prepared[4:7]] == ["4", "changed", "6"]


def test_a_message_that_was_replaced_is_noticed_however_old_it_is() -> None:
    stored = [says("user", str(number)) for number in range(9)]
    history = RequestHistory()
    history.prepare(stored)

    stored[0] = says("user", "changed")
    prepared, _ = history.prepare(stored)

    assert prepared[0].content == "changed"


def test_equal_messages_in_other_objects_are_not_made_again() -> None:
    """As a memory hands them out that reads them from a file each time."""
    stored = [says("user", str(number)) for number in range(9)]
    history = RequestHistory()
    first, _ = history.prepare(stored)

    second, _ = history.prepare(copy.deepcopy(stored))

    assert all(one is other for one, other in zip(first, second, strict=True))
