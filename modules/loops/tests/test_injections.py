"""Tests of what hooks want the model to read once."""

from __future__ import annotations

from typing import Any

from amplifier_core import ContextInjection, HookResult, Message, TextBlock
from amplifier_module_loops.announcer import Injections


def shown(messages: list[Message]) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in messages]


def test_everything_that_waits_is_added_in_order_until_it_is_cleared() -> None:
    injections = Injections()
    injections.take(HookResult(action="inject_context", context_injection="from a hook"))
    injections.add("from the loop")
    messages = [Message(role="user", content="hi")]

    injections.apply(messages)
    injections.clear()
    injections.apply(messages)

    assert shown(messages) == [
        ("user", "hi"),
        ("system", "from a hook"),
        ("user", "from the loop"),
    ]


def test_a_list_of_injections_counts_more_than_the_joined_text() -> None:
    injections = Injections()
    each = [ContextInjection(content="a", role="user"), ContextInjection(content="b")]
    injections.take(
        HookResult(action="inject_context", context_injection="a\n\nb", context_injections=each)
    )
    messages: list[Message] = []

    injections.apply(messages)

    assert shown(messages) == [("user", "a"), ("system", "b")]


def test_a_result_without_text_leaves_nothing_waiting() -> None:
    injections = Injections()
    injections.take(HookResult(action="inject_context"))
    messages: list[Message] = []

    injections.apply(messages)

    assert messages == []


def glued(text: str, role: Any = "system") -> Injections:
    injections = Injections()
    injections.take(
        HookResult(
            action="inject_context",
            context_injection=text,
            context_injection_role=role,
            append_to_last_tool_result=True,
        )
    )
    return injections


def test_text_for_the_last_tool_result_is_glued_to_a_copy_of_it() -> None:
    result = Message(role="tool", content="done", tool_call_id="a")
    messages = [result]

    glued("and mind the tests").apply(messages)

    assert shown(messages) == [("tool", "done\n\nand mind the tests")]
    assert messages[0].tool_call_id == "a"
    assert result.content == "done"


def test_text_for_a_rich_tool_result_becomes_a_block_of_it() -> None:
    result = Message(role="tool", content=[TextBlock(text="done")], tool_call_id="a")
    messages = [result]

    glued("more").apply(messages)

    assert messages[0].content == [TextBlock(text="done"), TextBlock(text="more")]
    assert result.content == [TextBlock(text="done")]


def test_text_for_a_tool_result_that_is_not_there_becomes_a_message() -> None:
    messages = [Message(role="user", content="hi")]

    glued("note", "user").apply(messages)
    empty: list[Message] = []
    glued("note").apply(empty)

    assert shown(messages) == [("user", "hi"), ("user", "note")]
    assert shown(empty) == [("system", "note")]
