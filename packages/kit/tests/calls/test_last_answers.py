"""A last answer can be read and gone on from, and never asks for more."""

from __future__ import annotations

from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    Message,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
)
from amplifier_kit.calls.budget_notices import closed, closing_answer


def text_of(response: ChatResponse) -> str:
    [block] = response.content
    assert isinstance(block, TextBlock)
    return block.text


def test_it_says_why_there_is_none_what_was_asked_and_what_was_said_last() -> None:
    result = ToolResultBlock(tool_call_id="1", output="a long listing")
    messages = [
        Message(role="user", content="dig for gold"),
        Message(role="assistant", content=[TextBlock(text="Three"), TextBlock(text="holes.")]),
        Message(role="assistant", content=[ToolCallBlock(id="1", name="dig", input={})]),
        Message(role="user", content=[result]),
    ]

    answer = closing_answer("nothing is left", ChatRequest(messages=messages))

    assert text_of(answer) == (
        "No further model call was made: nothing is left.\n\n"
        "Still open: dig for gold\n\nReached so far: Three\nholes."
    )
    assert answer.finish_reason == "budget"
    assert answer.metadata == {"budget": "exhausted"}


def test_the_closing_answer_of_an_earlier_turn_is_not_quoted() -> None:
    before = ChatRequest(messages=[Message(role="assistant", content="Three holes.")])
    closing = text_of(closing_answer("nothing is left", before))
    messages = [*before.messages, Message(role="assistant", content=closing)]

    text = text_of(closing_answer("nothing is left", ChatRequest(messages=messages)))

    assert text.endswith("Reached so far: Three holes.")


def test_what_nobody_said_is_not_quoted_and_what_is_long_is_cut() -> None:
    request = ChatRequest(messages=[Message(role="user", content="x" * 1_000)])

    text = text_of(closing_answer("nothing is left", request))

    assert text.endswith("Still open: " + "x" * 400 + " ...")


def test_a_models_last_answer_keeps_its_words_and_loses_its_calls() -> None:
    response = ChatResponse(
        content=[TextBlock(text="Here."), ToolCallBlock(id="1", name="dig", input={})],
        tool_calls=[ToolCall(id="1", name="dig", arguments={})],
        metadata={"id": "r"},
    )

    answer = closed(response)

    assert text_of(answer) == "Here."
    assert answer.tool_calls is None
    assert answer.finish_reason == "budget"
    assert answer.metadata == {"id": "r", "budget": "exhausted"}
