"""Tests of a hook result read as one, whether its parts came in a list or in single fields."""

from __future__ import annotations

import pytest

from amplifier_core.models import ContextInjection, HookResult, UserMessage


def test_results_share_nothing_with_each_other() -> None:
    first = HookResult(action="continue")
    second = HookResult(action="continue")

    first.context_injections.append(ContextInjection(content="x"))
    first.user_messages.append(UserMessage(text="x"))

    assert (second.context_injections, second.user_messages) == ([], [])


def test_a_single_injection_is_read_as_a_list_of_one_with_its_origin() -> None:
    result = HookResult(
        action="inject_context",
        context_injection="text",
        context_injection_role="user",
        ephemeral=True,
        append_to_last_tool_result=True,
    )

    assert result.injections("linter", "tool:post") == [
        ContextInjection(
            content="text",
            role="user",
            ephemeral=True,
            append_to_last_tool_result=True,
            hook_name="linter",
            event="tool:post",
        )
    ]


def test_a_list_of_injections_counts_more_than_the_single_fields() -> None:
    given = [ContextInjection(content="a", hook_name="h"), ContextInjection(content="b")]
    result = HookResult(context_injection="joined", context_injections=given)

    assert result.injections("linter", "tool:post") == given
    assert HookResult().injections("linter", "tool:post") == []


def test_several_injections_are_joined_for_readers_of_the_single_fields() -> None:
    injections = [
        ContextInjection(content="a", role="user"),
        ContextInjection(content="b", ephemeral=True, append_to_last_tool_result=True),
    ]

    result = HookResult(reason="kept").with_injections(injections)

    assert (result.action, result.reason) == ("inject_context", "kept")
    assert (result.context_injection, result.context_injection_role) == ("a\n\nb", "user")
    assert (result.ephemeral, result.append_to_last_tool_result) == (True, True)
    assert result.context_injections == injections


def test_a_result_whose_injections_are_taken_out_continues() -> None:
    injecting = HookResult(action="inject_context", context_injection="x", ephemeral=True)

    result = injecting.with_injections([])

    assert (result.action, result.context_injection, result.ephemeral) == ("continue", None, False)
    assert injecting.context_injection == "x"


@pytest.mark.parametrize(("own", "source"), [(None, "linter"), ("mine", "mine")])
def test_the_single_message_comes_before_the_listed_ones(own: str | None, source: str) -> None:
    other = UserMessage(text="second")
    result = HookResult(
        user_message="first",
        user_message_level="error",
        user_message_source=own,
        user_messages=[other],
    )

    first = UserMessage(text="first", level="error", source=source)
    assert result.messages("linter") == [first, other]
    assert HookResult(user_messages=[other]).messages("linter") == [other]
