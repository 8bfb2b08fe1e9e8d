"""Whatever the history and the budget, a request is a true and fitting part of the history."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.llm_errors import ContextLengthError
from amplifier_kit.history_repair import repair_history
from amplifier_module_contexts.context_simple import SimpleContextManager
from amplifier_module_contexts.sizes import message_size
from contract.requirements import requirement

Messages = list[dict[str, Any]]

# Few ids, so that they repeat, cross and go astray.
IDS = st.sampled_from(["a", "b", "c"])


def _long(length: int) -> str:
    return "x" * length


TEXTS = st.one_of(st.text(max_size=20), st.builds(_long, st.integers(min_value=0, max_value=3_000)))


def _saying(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def _returning(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _calling(ids: list[str], text: str, form: str) -> dict[str, Any]:
    if form == "blocks":
        blocks: Messages = [
            {"type": "tool_call", "id": each, "name": "f", "input": {}} for each in ids
        ]
        return {"role": "assistant", "content": [{"type": "text", "text": text}, *blocks]}
    calls = [{"id": each, "tool": "f", "arguments": {"text": text[:50]}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _answering(ids: list[str], text: str) -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_call_id": each, "output": text} for each in ids]
    return {"role": "user", "content": blocks}


ROLES = st.sampled_from(["system", "developer", "user", "user", "assistant"])
SOME_IDS = st.lists(IDS, min_size=1, max_size=2)
MESSAGE = st.one_of(
    st.builds(_saying, ROLES, TEXTS),
    st.builds(_calling, SOME_IDS, TEXTS, st.sampled_from(["blocks", "list"])),
    st.builds(_returning, IDS, TEXTS),
    st.builds(_answering, SOME_IDS, TEXTS),
)
HISTORY = st.lists(MESSAGE, max_size=25)
# Of the tokens of the whole history, in percent: most of them force a compaction.
SHARE = st.integers(min_value=0, max_value=130)
CONFIG = st.fixed_dictionaries(
    {
        "compact_threshold": st.sampled_from([0.3, 0.8, 1.0]),
        "target_usage": st.sampled_from([0.2, 0.5, 1.0]),
        "protected_recent": st.sampled_from([0.0, 0.1, 1.0]),
        "truncate_chars": st.sampled_from([64, 500]),
        "mark_dropped": st.booleans(),
    }
)


def numbered(messages: Messages) -> Messages:
    """Give every message its number, where no model sees it."""
    return [{**message, "metadata": {"n": n}} for n, message in enumerate(messages)]


def tokens(messages: Messages) -> int:
    """Return the estimated tokens of these messages."""
    return -(-sum(map(message_size, messages)) // 4)


def numbers(view: Messages) -> list[int]:
    """Return the numbers of the messages in a view; the marker has none."""
    return [message["metadata"]["n"] for message in view if "metadata" in message]


def request(messages: Messages, budget: int, config: dict[str, Any]) -> Messages | None:
    """Return the view, or None when there can be none."""
    context = SimpleContextManager(**config)
    context.messages = messages
    try:
        view = asyncio.run(context.get_messages_for_request(token_budget=budget))
    except ContextLengthError as error:
        needed = re.search(r"at least (\d+) tokens", str(error))
        assert needed is not None
        assert int(needed[1]) > budget
        return None
    # The size it was budgeted with: at most the few digits of each note larger than the real one.
    budgeted, size = context.calibration.sent or 0, sum(map(message_size, view))
    assert size <= budgeted <= size + 12 * len(view)
    return view


def _is_plain(message: dict[str, Any]) -> bool:
    return isinstance(message["content"], str)


def pairs(messages: Messages) -> Iterator[tuple[int, int]]:
    """Yield the numbers of each call and its result: the latest open call of that id."""
    open_calls: dict[str, int] = {}
    for n, message in enumerate(messages):
        content: Messages = message["content"] if not _is_plain(message) else []
        if message["role"] == "assistant":
            calls = [*message.get("tool_calls", []), *(b for b in content or () if "id" in b)]
            open_calls.update((call["id"], n) for call in calls)
            continue
        for answer in (message, *content):
            if answer.get("tool_call_id") in open_calls:
                yield open_calls.pop(answer["tool_call_id"]), n


@requirement("LAW-27")
@given(HISTORY, SHARE, CONFIG)
def test_no_pair_is_split_no_budget_exceeded_and_no_stored_message_touched(
    messages: Messages, share: int, config: dict[str, Any]
) -> None:
    budget = tokens(messages) * share // 100
    stored = numbered(messages)
    before, objects = copy.deepcopy(stored), [id(message) for message in stored]

    view = request(stored, budget, config)

    assert stored == before
    assert [id(message) for message in stored] == objects
    if view is None:
        return
    kept = set(numbers(view))
    split = [pair for pair in pairs(stored) if (pair[0] in kept) != (pair[1] in kept)]
    assert split == []
    assert tokens(view) <= budget
    assert sum(
        len(str(message.get("content") or "")) for message in view if _is_plain(message)
    ) <= (budget * 4)


@requirement("CTX-9")
@given(HISTORY, SHARE, CONFIG)
def test_order_system_messages_prompt_and_newest_message_are_kept(
    messages: Messages, share: int, config: dict[str, Any]
) -> None:
    budget = tokens(messages) * share // 100
    stored = numbered(messages)

    view = request(stored, budget, config)

    if not view:
        return
    kept = numbers(view)
    assert kept == sorted(set(kept))
    assert {n for n, each in enumerate(stored) if each["role"] == "system"} <= set(kept)
    others = [n for n, each in enumerate(stored) if each["role"] != "system"]
    assert others[-1:] == [] or others[-1] in kept
    prompts = [n for n in others if stored[n]["role"] == "user" and _is_plain(stored[n])]
    assert prompts[-1:] == [] or prompts[-1] in kept


@given(HISTORY, SHARE, CONFIG)
def test_whatever_was_changed_in_the_view_says_so(
    messages: Messages, share: int, config: dict[str, Any]
) -> None:
    budget = tokens(messages) * share // 100
    stored = numbered(messages)

    for message in request(stored, budget, config) or []:
        if "metadata" not in message:
            assert "messages of this conversation were left out" in message["content"]
        elif message is not stored[message["metadata"]["n"]]:
            assert "characters left out" in str(message["content"])


@given(HISTORY, SHARE, CONFIG)
def test_compacting_a_view_again_changes_nothing(
    messages: Messages, share: int, config: dict[str, Any]
) -> None:
    budget = tokens(messages) * share // 100
    unmarked = {**config, "mark_dropped": False}

    view = request(numbered(messages), budget, unmarked)

    if view is not None:
        assert request(view, budget, unmarked) == view


@given(HISTORY, SHARE, CONFIG)
def test_the_view_depends_on_the_history_and_not_on_when_it_was_asked_for(
    messages: Messages, share: int, config: dict[str, Any]
) -> None:
    budget = tokens(messages) * share // 100
    stored = numbered(messages)

    async def asked_after_every_message() -> Messages | None:
        context, view = SimpleContextManager(**config), None
        for message in stored:
            await context.add_message(message)
            try:
                view = await context.get_messages_for_request(token_budget=budget)
            except ContextLengthError:
                view = None
        return view if stored else []

    assert asyncio.run(asked_after_every_message()) == request(stored, budget, config)


@given(HISTORY, SHARE, CONFIG)
def test_the_view_of_a_valid_history_is_valid(
    messages: Messages, share: int, config: dict[str, Any]
) -> None:
    budget = tokens(messages) * share // 100
    valid, _ = repair_history(messages)

    view = request(valid, budget, config)

    assert view is None or repair_history(view)[1] == []


@requirement("CTX-10")
@given(HISTORY, CONFIG)
def test_the_number_in_the_error_is_the_smallest_budget_that_works(
    messages: Messages, config: dict[str, Any]
) -> None:
    context = SimpleContextManager(**config)
    context.messages = messages
    try:
        asyncio.run(context.get_messages_for_request(token_budget=1))
    except ContextLengthError as error:
        needed = re.search(r"at least (\d+) tokens", str(error))
        assert needed is not None
        assert request(messages, int(needed[1]), config) is not None
        assert request(messages, int(needed[1]) - 1, config) is None
