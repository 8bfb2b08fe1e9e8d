"""What a request keeps, what it leaves out, and what it says about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import ToolCall
from amplifier_core.llm_errors import ContextLengthError
from amplifier_core.testing import EventRecorder
from amplifier_module_contexts.context_simple import SimpleContextManager
from contract.requirements import requirement

Build = Callable[..., SimpleContextManager]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def step(name: str, output: str, call_id: str = "c") -> list[dict[str, Any]]:
    """Make a tool call and its result."""
    call: dict[str, Any] = {"id": call_id, "tool": name, "arguments": {}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": output},
    ]


def texts(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["content"] for message in messages]


@requirement("CTX-7")
async def test_the_oldest_messages_are_left_out_of_the_view_and_stay_in_the_store(
    build: Build,
) -> None:
    stored = [user(f"{number} " + "x" * 380) for number in range(20)]
    context = build(stored, max_tokens=1_000, mark_dropped=False)

    view = await context.get_messages_for_request()

    assert view == stored[-len(view) :]
    assert 3 <= len(view) <= 8
    assert await context.get_messages() == stored


@requirement("CTX-9")
async def test_system_messages_stay_wherever_they_stand(build: Build) -> None:
    filler = [user("x" * 380) for _ in range(10)]
    stored = [system("first"), *filler, system("second"), *filler]
    context = build(stored, max_tokens=1_000)

    view = await context.get_messages_for_request()

    assert [each["content"] for each in view if each["role"] == "system"] == ["first", "second"]
    assert view[0] == system("first")


async def test_what_was_left_out_is_marked_behind_the_system_messages(build: Build) -> None:
    stored = [system("rules"), *(user("x" * 380) for _ in range(20))]
    context = build(stored, max_tokens=1_000)

    view = await context.get_messages_for_request()

    left_out = len(stored) - (len(view) - 1)
    note = f"[{left_out} messages of this conversation were left out to fit the context window.]"
    assert view[:2] == [system("rules"), user(note)]


async def test_old_tool_results_are_shortened_before_anything_is_left_out(build: Build) -> None:
    stored = [user("go"), *step("read", "A" * 1_500 + "Z" * 1_500), user("on"), user("x" * 200)]
    context = build(stored, max_tokens=800, truncate_chars=100)

    view = await context.get_messages_for_request()

    assert len(view) == len(stored)
    shortened = view[2]["content"]
    assert len(shortened) <= 100
    assert shortened.startswith("AAAA")
    assert shortened.endswith("ZZZZ")
    assert "characters left out" in shortened
    assert view[2]["tool_call_id"] == "c"
    assert stored[2]["content"] == "A" * 1_500 + "Z" * 1_500


async def test_the_newest_tool_results_are_not_shortened(build: Build) -> None:
    stored = [user("go"), *step("read", "old " * 200), *step("read", "new " * 200)]
    context = build(stored, max_tokens=500, truncate_chars=100)

    view = await context.get_messages_for_request()

    assert view[-1] is stored[-1]
    assert "characters left out" in view[2]["content"]


async def test_the_prompt_of_a_long_turn_is_kept_though_it_is_old(build: Build) -> None:
    stored = [user("the old turn"), user("the task")]
    for number in range(30):
        stored += step("work", f"{number} " + "x" * 300, call_id=f"c{number}")
    context = build(stored, max_tokens=1_000, mark_dropped=False)

    view = await context.get_messages_for_request()

    assert view[0] == user("the task")
    assert view[1:] == stored[-len(view) + 1 :]
    assert view[1]["role"] == "assistant"


async def test_when_a_new_prompt_comes_the_old_one_may_go(build: Build) -> None:
    stored = [user("the first task")]
    for number in range(30):
        stored += step("work", "x" * 300, call_id=f"c{number}")
    stored += [user("the second task")]
    for number in range(30):
        stored += step("work", "x" * 300, call_id=f"d{number}")

    view = await build(stored, max_tokens=1_000).get_messages_for_request()

    assert user("the second task") in view
    assert user("the first task") not in view


CALLS: list[dict[str, Any]] = [
    {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
    {"tool_calls": [{"id": "c", "tool": "f", "arguments": {}}]},
    {"tool_calls": [ToolCall(id="c", name="f", arguments={})]},
    {"content": [{"type": "tool_call", "id": "c", "name": "f", "input": {}}]},
    {"content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
]
RESULTS: list[dict[str, Any]] = [
    {"role": "tool", "tool_call_id": "c", "content": "done"},
    {"role": "user", "content": [{"type": "tool_result", "tool_call_id": "c", "output": 1}]},
]


@requirement("CTX-12")
@pytest.mark.parametrize("assistant", CALLS)
@pytest.mark.parametrize("result", RESULTS)
async def test_a_pair_is_known_by_its_id_in_every_stored_form(
    build: Build, assistant: dict[str, Any], result: dict[str, Any]
) -> None:
    call = {"role": "assistant", "content": None, **assistant}
    filler = [user("x" * 200) for _ in range(4)]
    for room in range(60, 400, 10):
        context = build([call, *filler, result, user("end")], max_tokens=room, compact_threshold=1)
        view = await context.get_messages_for_request()
        assert (call in view) == (result in view)


@pytest.mark.parametrize("answers", [["a", "b"], ["b", "a"]])
async def test_calls_that_one_message_answers_stay_together_with_all_their_results(
    build: Build, answers: list[str]
) -> None:
    blocks = [{"type": "tool_result", "tool_call_id": each, "output": 1} for each in answers]
    first, second = ({"role": "assistant", "tool_calls": [{"id": i}, {"id": i + i}]} for i in "ab")
    both = {"role": "user", "content": blocks}
    late = [{"role": "tool", "tool_call_id": i, "content": i} for i in ("aa", "bb")]
    group = [first, second, both, *late]
    filler = [user("x" * 200) for _ in range(4)]
    stored = [first, *filler, second, *filler, both, *late, user("end")]

    counts: set[int] = set()
    for room in range(70, 700, 10):
        view = await build(stored, max_tokens=room, compact_threshold=1).get_messages_for_request()
        counts.add(sum(each in view for each in group))

    assert counts == {0, 5}


async def test_results_in_the_protected_part_are_shortened_last(build: Build) -> None:
    stored = [user("go")]
    for number in range(10):
        stored += step("read", f"{number} " * 200, call_id=f"c{number}")

    async def shortened(protected_recent: float) -> list[bool]:
        context = build(
            stored,
            max_tokens=1_000,
            compact_threshold=1,
            target_usage=0.9,
            truncate_chars=100,
            protected_recent=protected_recent,
        )
        view = await context.get_messages_for_request()
        return ["left out" in each["content"] for each in view if each["role"] == "tool"]

    nothing_protected, everything_protected = await shortened(0.0), await shortened(1.0)
    assert nothing_protected == sorted(nothing_protected, reverse=True), "the oldest go first"
    assert len(nothing_protected) == 10
    assert not any(everything_protected)
    assert len(everything_protected) < 10


@requirement("CTX-10")
async def test_a_message_larger_than_the_budget_is_cut_visibly(build: Build) -> None:
    stored = [system("rules"), user("A" * 5_000 + "Z" * 5_000)]
    context = build(stored, max_tokens=200)

    view = await context.get_messages_for_request()

    assert view[0] == system("rules")
    assert view[1]["content"].startswith("AAAA")
    assert view[1]["content"].endswith("ZZZZ")
    assert "characters left out" in view[1]["content"]
    assert 700 < sum(map(len, texts(view))) <= 800


async def test_the_largest_texts_are_cut_to_one_length(build: Build) -> None:
    blocks = [
        {"type": "text", "text": "t" * 4_000},
        {"type": "tool_result", "tool_call_id": "c", "output": {"log": ["l" * 4_000, 7]}},
        {"type": "image", "source": {"data": "i" * 1_000_000}},
    ]
    stored = [system("short"), {"role": "user", "content": blocks}]

    _, cut = await build(stored, max_tokens=2_000).get_messages_for_request()

    text, result, image = cut["content"]
    assert len(text["text"]) == len(result["output"]["log"][0]) < 1_000
    assert result["tool_call_id"] == "c"
    assert image == blocks[2]
    assert blocks[0]["text"] == "t" * 4_000


async def test_what_cannot_be_cut_is_an_error_with_the_numbers(build: Build) -> None:
    call = {"id": "c", "tool": "write", "arguments": {"text": "x" * 4_000}}
    stored = [user("go"), {"role": "assistant", "content": "", "tool_calls": [call]}]

    with pytest.raises(ContextLengthError) as raised:
        await build(stored).get_messages_for_request(token_budget=500)

    assert "need at least 1018 tokens, and the budget is 500" in str(raised.value)
    assert len(await build(stored).get_messages_for_request(token_budget=1_018)) == 2


@requirement("CTX-11")
async def test_a_compaction_is_announced_before_and_after_with_its_figures(
    build: Build, recorder: EventRecorder
) -> None:
    context = build([user("x" * 380) for _ in range(20)], max_tokens=1_000)

    view = await context.get_messages_for_request()

    (before, full), (after, left), (what, stats) = recorder.events
    assert [before, after, what] == [
        "context:pre_compact",
        "context:post_compact",
        "context:compaction",
    ]
    assert (full["message_count"], full["token_count"]) == (20, 2_000)
    assert left["message_count"] == len(view)
    assert left["token_count"] <= 1_000
    del stats["timestamp"]
    assert stats == {
        "before_messages": 20,
        "before_tokens": 2_000,
        "after_messages": len(view),
        "after_tokens": left["token_count"],
        "budget": 1_000,
        "messages_dropped": 20 - (len(view) - 1),
        "messages_shortened": 0,
    }


async def test_the_same_compaction_is_announced_once(build: Build, recorder: EventRecorder) -> None:
    context = build([user("x" * 380) for _ in range(20)], max_tokens=1_000)

    for _ in range(3):
        await context.get_messages_for_request()
        await context.add_message({"role": "assistant", "content": "ok"})

    assert len(recorder.get_events("context:compaction")) == 1


async def test_a_request_that_fits_announces_nothing(build: Build, recorder: EventRecorder) -> None:
    await build([user("hello")]).get_messages_for_request()

    assert recorder.events == []


async def test_a_cleared_history_is_announced_anew_when_it_is_compacted_again(
    build: Build, recorder: EventRecorder
) -> None:
    stored = [user("x" * 380) for _ in range(20)]
    context = build(stored, max_tokens=1_000)

    await context.get_messages_for_request()
    await context.clear()
    await context.set_messages(stored)
    await context.get_messages_for_request()

    assert len(recorder.get_events("context:compaction")) == 2


async def test_the_beginning_of_the_view_changes_only_once_in_a_while(
    build: Build, recorder: EventRecorder
) -> None:
    context = build([system("rules")], max_tokens=2_000)
    beginnings: list[Any] = []
    for number in range(200):
        await context.add_message(user(f"{number} " + "x" * 380))
        beginnings.append(texts(await context.get_messages_for_request())[:3])

    changes = sum(a != b for a, b in zip(beginnings[3:], beginnings[4:], strict=False))
    assert changes == len(recorder.get_events("context:compaction"))
    assert changes < 200 / 5


async def test_a_memory_without_hooks_compacts_in_silence() -> None:
    context = SimpleContextManager(max_tokens=1_000)
    await context.set_messages([user("x" * 380) for _ in range(20)])

    assert len(await context.get_messages_for_request()) < 20


async def test_a_large_system_prompt_does_not_cost_the_conversation(build: Build) -> None:
    stored = [system("s" * 2_400), *(user("x" * 80) for _ in range(40))]
    context = build(stored, max_tokens=1_000)

    view = await context.get_messages_for_request()

    assert len(view) > 5, "the goal is a share of what the system messages leave"
