"""Messages on their way to a vendor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.history import INTERRUPTED
from amplifier_core.message_models import (
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
)
from amplifier_core.models import ToolResult
from amplifier_kit.calls.messages import (
    Converted,
    blocks_of,
    output_text,
    repaired,
    rich_output,
    split_system,
    stored_calls,
    text_of,
)

USER = Message(role="user", content="hi")


def calling(*ids: str) -> Message:
    blocks = [ToolCallBlock(id=each, name="t", input={"a": None}) for each in ids]
    return Message(role="assistant", content=[*blocks])


def result(call_id: str) -> Message:
    return Message(role="tool", tool_call_id=call_id, content="done")


SOUND = [
    [USER],
    [USER, calling("a"), result("a"), USER],
    [USER, calling("a", "b"), result("b"), result("a")],
    [USER, Message(role="assistant", content="", tool_calls=[{"id": "a", "tool": "t"}]),  # pyright: ignore[reportCallIssue] - loops store it beside the content
     result("a")],
    [calling("a"), Message(role="tool", tool_call_id="a", content=[TextBlock(text="done")])],
    [calling("a"), Message(role="user", content=[ToolResultBlock(tool_call_id="a", output="x")])],
]  # fmt: skip


@pytest.mark.parametrize("messages", SOUND)
def test_a_sound_history_comes_back_as_it_is(messages: list[Message]) -> None:
    found, repairs = repaired(messages)

    assert found is messages
    assert repairs == []


def test_a_missing_result_is_filled_in() -> None:
    found, repairs = repaired([calling("a", "b"), result("a"), USER])

    assert [(each.role, each.tool_call_id) for each in found] == [
        ("assistant", None), ("tool", "a"), ("tool", "b"), ("user", None),
    ]  # fmt: skip
    assert found[2].content == INTERRUPTED
    assert [(each.kind, each.tool_call_id) for each in repairs] == [("answered", "b")]


def test_a_result_without_a_call_is_dropped() -> None:
    lost = Message(role="user", content=[ToolResultBlock(tool_call_id="lost", output="x")])

    found, repairs = repaired([lost, USER])

    assert found == [USER]
    assert [(each.kind, each.tool_call_id) for each in repairs] == [("dropped", "lost")]


def test_what_needs_no_repair_survives_one_to_the_letter() -> None:
    kept = Message(
        role="tool",
        tool_call_id="a",
        content=[ToolResultBlock(tool_call_id="a", output=None)],
        metadata={"kept": None},
    )

    found, _ = repaired([calling("a", "b"), kept, USER])

    assert found[0] == calling("a", "b")
    assert found[1] == kept


@given(st.lists(st.sampled_from([USER, calling("a"), calling("b", "c"), *map(result, "abc")])))
def test_a_repaired_history_needs_no_further_repair(messages: list[Message]) -> None:
    found, _ = repaired(messages)

    assert repaired(found) == (found, [])


# --- calls ----------------------------------------------------------------------------------------

CALL = ToolCall(id="a", name="t", arguments={"x": 1})


@pytest.mark.parametrize(
    "stored",
    [
        {"id": "a", "name": "t", "arguments": {"x": 1}},
        {"id": "a", "tool": "t", "arguments": {"x": 1}},
        {"id": "a", "tool": "t", "arguments": '{"x": 1}'},
        {"id": "a", "type": "function", "function": {"name": "t", "arguments": '{"x": 1}'}},
        CALL,
    ],
)
def test_a_call_is_read_in_every_form_that_loops_store(stored: Any) -> None:
    message = Message.model_validate({"role": "assistant", "content": "", "tool_calls": [stored]})

    assert stored_calls(message) == [CALL]


@pytest.mark.parametrize("arguments", [None, "", {}])
def test_a_call_without_arguments_has_an_empty_dict(arguments: Any) -> None:
    call = {"id": "a", "tool": "t", "arguments": arguments}
    message = Message.model_validate({"role": "assistant", "content": "", "tool_calls": [call]})

    assert [each.arguments for each in stored_calls(message)] == [{}]


@pytest.mark.parametrize("stored", ['{"path": "/et', "[1]", [1]])
def test_arguments_that_nobody_can_read_are_kept_as_they_are(stored: Any) -> None:
    call = {"id": "a", "tool": "t", "arguments": stored}
    message = Message.model_validate({"role": "assistant", "content": "", "tool_calls": [call]})

    assert [each.arguments for each in stored_calls(message)] == [{"raw": stored}]


def test_a_call_that_is_stored_twice_is_one_call() -> None:
    calls = [{"type": "tool_call", "id": each, "name": "t", "input": {"x": 1}} for each in "ab"]
    blocks = [{"type": "text", "text": "Well."}, *calls]
    extra = [{"id": each, "tool": "t", "arguments": {"x": 1}} for each in "bc"]

    message = Message.model_validate({"role": "assistant", "content": blocks, "tool_calls": extra})

    assert [each.id for each in stored_calls(message)] == ["a", "b", "c"]


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("as it is\n", "as it is\n"),
        ({"größe": 1}, '{"größe": 1}'),
        ([1, None], "[1, null]"),
        (None, "null"),
        ({1, }, "{1}"),
        (TextBlock(text="x"), '{"type": "text", "text": "x"}'),
    ],
    ids=["text", "dict", "list", "none", "set", "model"],
)  # fmt: skip
def test_an_output_is_read_as_text(output: Any, expected: str) -> None:
    assert output_text(output).strip('"') == expected.strip('"')


def test_a_tool_result_is_read_as_json() -> None:
    assert '"output": "x"' in output_text(ToolResult(success=True, output="x"))


def test_the_text_of_a_message_is_that_of_its_blocks() -> None:
    blocks = [
        TextBlock(text="one"),
        ImageBlock(source={"type": "url", "url": "u"}),
        ToolResultBlock(tool_call_id="a", output={"x": 1}),
    ]

    assert text_of(USER) == "hi"
    assert text_of(Message(role="user", content=[*blocks])) == 'one\n\n{"x": 1}'


def test_only_the_opening_system_texts_are_the_systems() -> None:
    first, second, late = (Message(role="system", content=each) for each in ("1", "2", "late"))

    assert split_system([first, second, USER, late]) == ([first, second], [USER, late])
    assert split_system([]) == ([], [])


def test_a_plain_text_is_one_block() -> None:
    assert blocks_of(USER) == [TextBlock(text="hi")]
    assert blocks_of(calling("a")) == calling("a").content


@pytest.mark.parametrize("output", ["text", [], [1], {"type": "text"}, None])
def test_an_output_that_is_no_list_of_texts_and_images_is_not_rich(output: Any) -> None:
    assert rich_output(output) is None


def test_a_list_of_texts_and_images_is_rich() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}

    found = rich_output([{"type": "text", "text": "hi"}, {"type": "image", "source": source}])

    assert found == [TextBlock(text="hi"), ImageBlock(source=source)]


# --- conversion -----------------------------------------------------------------------------------


def test_only_what_is_new_is_converted() -> None:
    seen: list[Message] = []

    def convert(message: Message) -> list[str]:
        seen.append(message)
        return [message.role]

    converted = Converted(convert)
    messages = [calling("a"), result("a")]
    first = converted(messages)
    second = converted([*messages, USER])

    assert seen == [*messages, USER]
    assert second == [["assistant"], ["tool"], ["user"]]
    assert [a is b for a, b in zip(first, second, strict=False)] == [True, True]


@given(st.lists(st.lists(st.sampled_from([USER, calling("a"), result("a")]))))
def test_memory_never_changes_what_is_sent(histories: list[list[Message]]) -> None:
    converted = Converted(id)

    for history in histories:
        assert converted(history) == [id(each) for each in history]


def test_a_list_that_was_handed_out_may_be_changed() -> None:
    converted = Converted(id)
    converted([USER]).append(0)

    assert converted([USER]) == [id(USER)]
