"""Tests of repairing a history: any sequence becomes valid, and nothing good is lost or changed."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ToolCall
from amplifier_core.history import INTERRUPTED, unanswered_calls
from amplifier_kit.history_repair import Repair, repair_history
from contract.requirements import requirement

Stored = dict[str, Any]


def text(role: str, content: str = "text") -> Stored:
    return {"role": role, "content": content}


def loop_calls(ids: Iterable[str]) -> Stored:
    """Calls as our loop stores them: in both places."""
    calls: list[Any] = [{"id": each, "tool": "t", "arguments": {}} for each in ids]
    return {"role": "assistant", "content": call_blocks(ids), "tool_calls": calls}


def seed_calls(ids: Iterable[str]) -> Stored:
    """Calls in the shape of the seeds."""
    calls = [{"id": each, "type": "function", "function": {"name": "t"}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def object_calls(ids: Iterable[str]) -> Stored:
    """Calls that are still objects."""
    calls = [ToolCall(id=each, name="t", arguments={}) for each in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def block_calls(ids: Iterable[str]) -> Stored:
    """Calls in the content alone."""
    said: Stored = {"type": "text", "text": "I will"}
    return {"role": "assistant", "content": [said, *call_blocks(ids)]}


def call_blocks(ids: Iterable[str]) -> list[Stored]:
    return [{"type": "tool_call", "id": each, "name": "t", "input": {}} for each in ids]


def nameless_call() -> Stored:
    return {"role": "assistant", "content": "", "tool_calls": [{"tool": "t", "arguments": {}}]}


def result(call_id: str | None, content: Any = "done") -> Stored:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def results(ids: Iterable[str], say: bool = False) -> Stored:
    """Results as content blocks, with or without text beside them."""
    said = [{"type": "text", "text": "and now?"}] if say else []
    return {"role": "user", "content": [*result_blocks(ids), *said]}


def tool_blocks(call_id: str | None, ids: Iterable[str]) -> Stored:
    """A tool message with blocks: its own result again, or any others."""
    return result(call_id, result_blocks(ids))


def result_blocks(ids: Iterable[str]) -> list[Stored]:
    return [{"type": "tool_result", "tool_call_id": each, "output": "done"} for each in ids]


ids = st.sampled_from(["a", "b", "c"])
some = st.lists(ids, min_size=1, max_size=3, unique=True)
any_some = st.lists(ids, min_size=1, max_size=4)
speakers = st.sampled_from(["user", "assistant", "system", "developer"])
messages = st.one_of(
    st.builds(text, speakers, st.text("xy", max_size=2)),
    st.builds(loop_calls, some),
    st.builds(seed_calls, some),
    st.builds(object_calls, some),
    st.builds(block_calls, some),
    st.builds(nameless_call),
    st.builds(result, ids | st.none()),
    st.builds(tool_blocks, ids | st.none(), any_some),
    st.builds(results, any_some, st.booleans()),
)
histories = st.lists(messages, max_size=10)


def blocks_of(message: Stored, kind: str) -> list[Any]:
    content: Any = message["content"]
    return [block for block in content or () if type(block) is dict and block["type"] == kind]


def calls_of(message: Stored) -> set[str]:
    """The calls a message makes, read independently of the kernel."""
    if message["role"] != "assistant":
        return set()
    made: list[Any] = [*(message.get("tool_calls") or ()), *blocks_of(message, "tool_call")]
    found = [each.id if isinstance(each, ToolCall) else each.get("id") for each in made]
    return {each for each in found if each}


def answers_of(message: Stored) -> list[str | None]:
    """The results a message carries; a tool message and its own block are one."""
    if message["role"] in ("assistant", "system"):
        return []
    found: list[Any] = [block["tool_call_id"] for block in blocks_of(message, "tool_result")]
    if message["role"] != "tool" or (found and message["tool_call_id"] is None):
        return found
    own = message["tool_call_id"]
    return [own, *found[1:]] if found[:1] == [own] else [own, *found]


def faults(history: list[Stored]) -> list[str]:
    """Everything a provider could refuse about the calls and results of a history."""
    found: list[str] = []
    waiting: set[str | None] = set()
    for number, message in enumerate(history):
        answers = answers_of(message)
        for call_id in answers:
            if call_id not in waiting:
                found.append(f"{number}: result of {call_id} has no call right before it")
            waiting.discard(call_id)
        if not answers:
            found += [f"{number}: no result of {call_id} before it" for call_id in waiting]
            waiting = {*calls_of(message)}
    return found + [f"end: no result of {call_id}" for call_id in waiting]


@requirement("LAW-26")
@given(histories)
def test_any_sequence_of_messages_becomes_valid(history: list[Stored]) -> None:
    repaired, repairs = repair_history(history)

    assert faults(repaired) == []
    assert bool(repairs) == bool(faults(history))


@requirement("LAW-26")
@given(histories)
def test_repairing_again_changes_nothing_and_gives_the_same_list(history: list[Stored]) -> None:
    repaired, _ = repair_history(history)

    again, more = repair_history(repaired)

    assert again is repaired
    assert more == []


@requirement("LAW-26")
@given(histories)
def test_no_message_is_changed_in_place(history: list[Stored]) -> None:
    before = copy.deepcopy(history)

    repair_history(history)

    assert history == before


@requirement("LAW-26")
@given(histories)
def test_what_is_no_result_stays_in_its_order_as_the_same_object(history: list[Stored]) -> None:
    repaired, _ = repair_history(history)

    kept = [message for message in history if not answers_of(message)]
    left = [message for message in repaired if not answers_of(message)]
    assert [id(message) for message in left if message in kept] == [id(each) for each in kept]


@requirement("LAW-26")
@given(histories)
def test_a_result_that_comes_after_its_call_is_never_lost(history: list[Stored]) -> None:
    repaired, repairs = repair_history(history)

    made_up = [message for message in repaired if message["content"] == INTERRUPTED]
    answered = [repair.tool_call_id for repair in repairs if repair.kind == "answered"]
    assert sorted(message["tool_call_id"] for message in made_up) == sorted(answered)
    waiting: set[str | None] = set()
    unanswerable = 0
    for message in history:
        for call_id in answers_of(message):
            waiting.discard(call_id)
        unanswerable += len(waiting & calls_of(message))
        waiting |= calls_of(message)
    assert len(made_up) == len(waiting) + unanswerable


@requirement("LAW-26")
@given(st.lists(st.tuples(some, st.booleans()), max_size=5))
def test_a_valid_history_comes_back_as_the_same_list(rounds: list[tuple[list[str], bool]]) -> None:
    history: list[Stored] = [text("system"), text("user")]
    for ids, in_blocks in rounds:
        history.append(loop_calls(ids))
        history += [results(ids)] if in_blocks else [result(each) for each in ids]
    history.append(text("assistant"))

    repaired, repairs = repair_history(history)

    assert repaired is history
    assert repairs == []


Case = tuple[list[Stored], list[Stored], list[Repair]]
ANSWER = {"role": "tool", "tool_call_id": "a", "name": "t", "content": INTERRUPTED}
CASES: dict[str, Case] = {
    "a call without a result is answered": (
        [loop_calls("a"), text("user")],
        [loop_calls("a"), ANSWER, text("user")],
        [Repair("answered", "a")],
    ),
    "a result elsewhere moves to its call": (
        [seed_calls("a"), text("user"), result("a")],
        [seed_calls("a"), result("a"), text("user")],
        [Repair("moved", "a")],
    ),
    "a result without a call is dropped": (
        [text("user"), result("a")],
        [text("user")],
        [Repair("dropped", "a")],
    ),
    "a second result is dropped": (
        [block_calls("a"), result("a", "first"), result("a", "second")],
        [block_calls("a"), result("a", "first")],
        [Repair("dropped", "a")],
    ),
    "blocks without a call leave the text beside them": (
        [results("a", say=True)],
        [{"role": "user", "content": [{"type": "text", "text": "and now?"}]}],
        [Repair("dropped", "a")],
    ),
    "a message of nothing but lost blocks goes": (
        [text("user"), results("ab")],
        [text("user")],
        [Repair("dropped", "a"), Repair("dropped", "b")],
    ),
    "a lost block beside a good one goes": (
        [loop_calls("a"), results("ab")],
        [loop_calls("a"), results("a")],
        [Repair("dropped", "b")],
    ),
    "the results of two calls in one message go to their own calls": (
        [loop_calls("a"), loop_calls("b"), results("ab")],
        [loop_calls("a"), results("a"), loop_calls("b"), results("b")],
        [Repair("moved", "a"), Repair("moved", "b")],
    ),
    "the same block twice in one message is one too many": (
        [loop_calls("a"), results("aa")],
        [loop_calls("a"), results("a")],
        [Repair("dropped", "a")],
    ),
}


@requirement("LAW-26")
@pytest.mark.parametrize(("history", "expected", "said"), CASES.values(), ids=CASES.keys())
def test_each_fault_has_its_repair(
    history: list[Stored], expected: list[Stored], said: list[Repair]
) -> None:
    repaired, repairs = repair_history(history)

    assert repaired == expected
    assert sorted(repairs) == sorted(said)


def test_what_else_a_message_holds_survives_the_loss_of_a_result() -> None:
    picture = object()
    content = [*result_blocks("a"), picture, "plain"]
    message: Stored = {"role": "user", "content": content, "metadata": {"n": 1}}

    repaired, _ = repair_history([message])

    assert repaired == [{"role": "user", "content": [picture, "plain"], "metadata": {"n": 1}}]


def test_unanswered_calls_are_named_in_call_order_with_their_tools() -> None:
    history = [loop_calls("ca"), result("a"), object_calls("b"), results("x")]

    assert unanswered_calls(history) == {"c": "t", "b": "t"}
    assert unanswered_calls([*history, results("bc")]) == {}


def test_a_call_without_an_id_waits_for_nothing() -> None:
    assert unanswered_calls([nameless_call()]) == {}
