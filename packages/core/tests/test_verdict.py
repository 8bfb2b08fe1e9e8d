"""Tests of how several answers become one: what is kept, what is joined, what is left out."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ContextInjection, HookRegistry, HookResult, ModuleCoordinator
from amplifier_core.models import UserMessage
from contract.doubles import Approvals, Display, Listener, ask, deny, inject, modify
from contract.requirements import requirement


async def emit(*answers: Any) -> HookResult:
    """Emit to one handler per answer, in this order."""
    registry = HookRegistry()
    for number, answer in enumerate(answers):
        registry.register("tool:pre", Listener(answer), number, f"h{number}")
    return await registry.emit("tool:pre", {"n": 1})


def told(result: HookResult) -> list[tuple[str, str, str | None]]:
    """Everything a result tells the user, with level and source."""
    messages = [(each.text, each.level, each.source) for each in result.user_messages]
    if result.user_message is None:
        return messages
    own = (result.user_message, result.user_message_level, result.user_message_source)
    return [own, *messages]


@requirement("LAW-7")
async def test_a_message_carries_its_level_and_the_name_of_its_handler() -> None:
    result = await emit(
        HookResult(user_message="one", user_message_level="warning"),
        modify({"n": 2}, user_message="two", user_message_source="linter"),
    )

    assert told(result) == [("one", "warning", "h0"), ("two", "info", "linter")]


@requirement("LAW-7")
async def test_what_a_handler_was_told_by_others_is_handed_on() -> None:
    passed_on = [UserMessage(text="from below", level="error", source="deep")]

    result = await emit(HookResult(user_messages=passed_on), HookResult(user_message="own"))

    assert told(result) == [("from below", "error", "deep"), ("own", "info", "h1")]


@requirement("LAW-7", "HOOK-28")
async def test_a_denial_keeps_its_own_message_and_adds_what_came_before() -> None:
    denial = deny("no", user_message="denied", user_messages=[UserMessage(text="why")])

    result = await emit(HookResult(user_message="before"), denial)

    assert result.user_message == "denied"
    assert told(result) == [
        ("denied", "info", None),
        ("before", "info", "h0"),
        ("why", "info", None),
    ]
    assert [each.text for each in denial.user_messages] == ["why"]


@requirement("HOOK-32", "LAW-7")
async def test_a_later_question_is_dropped_and_its_message_is_not() -> None:
    result = await emit(
        ask("first?", user_message="of the first"), ask("second?", user_message="of the second")
    )

    assert result.approval_prompt == "first?"
    assert sorted(text for text, *_ in told(result)) == ["of the first", "of the second"]


async def test_the_same_answer_object_from_two_handlers_counts_twice() -> None:
    shared = inject("text", user_message="said")

    result = await emit(shared, shared)

    assert result.context_injection == "text\n\ntext"
    assert [text for text, *_ in told(result)] == ["said", "said"]


@pytest.mark.parametrize("answer", [HookResult(), ask(), inject("text")])
async def test_one_wish_to_suppress_output_is_enough(answer: HookResult) -> None:
    suppressing = HookResult(suppress_output=True)

    assert (await emit(answer, suppressing)).suppress_output is True
    assert (await emit(suppressing, answer, HookResult(user_message="x"))).suppress_output is True


async def test_an_injection_without_any_text_injects_nothing() -> None:
    result = await emit(HookResult(action="inject_context"), HookResult(user_message="said"))

    assert (result.action, result.context_injections) == ("continue", [])
    assert [text for text, *_ in told(result)] == ["said"]


@requirement("HOOK-39")
async def test_injections_of_a_question_are_ignored_like_those_of_any_other_answer() -> None:
    stray = ask("May I?", context_injections=[ContextInjection(content="stray")])
    coordinator = ModuleCoordinator(None, Approvals("Allow"), Display())

    result = await emit(stray)
    left = await coordinator.process_hook_result(result, "tool:pre", "loop")

    assert result.context_injections == []
    assert left.action == "continue"


@requirement("HOOK-32", "HOOK-37")
async def test_a_question_carries_the_injections_of_the_others() -> None:
    result = await emit(inject("one"), ask("May I?"), inject("two", ephemeral=True))

    assert (result.action, result.approval_prompt) == ("ask_user", "May I?")
    assert [(each.content, each.hook_name) for each in result.context_injections] == [
        ("one", "h0"),
        ("two", "h2"),
    ]


@requirement("LAW-6")
@pytest.mark.parametrize("answer", [ask("May I?"), inject("text")], ids=["ask", "inject"])
async def test_only_a_modification_changes_the_data(answer: HookResult) -> None:
    answer = answer.model_copy(update={"data": {"n": "smuggled"}})

    result = await emit(answer)

    assert (result.data or {}).get("n", 1) == 1


@requirement("HOOK-26")
async def test_dicts_and_results_are_merged_alike() -> None:
    result = await emit(
        {"action": "modify", "data": {"n": 2}, "user_message": "edited"},
        {"action": "inject_context", "context_injection": "text"},
    )

    assert (result.action, result.data) == ("inject_context", {"n": 2})
    assert [text for text, *_ in told(result)] == ["edited"]


@requirement("HOOK-26")
async def test_a_dict_that_names_a_data_of_the_wrong_type_denies() -> None:
    result = await emit({"action": "modify", "data": [1, 2]})

    assert result.action == "deny"


async def test_a_hand_made_answer_with_data_of_the_wrong_type_denies() -> None:
    made: Any = HookResult.model_construct(action="modify", data=[1, 2])

    result = await emit(made)

    assert result.action == "deny"


@requirement("HOOK-35")
async def test_a_single_injection_keeps_the_reason_and_the_source_its_handler_gave() -> None:
    result = await emit(HookResult(), inject("text", reason="because", user_message="told"))

    assert (result.reason, result.user_message_source) == ("because", None)
    assert result.user_messages == []
    both = await emit(inject("one", reason="first"), inject("two", reason="second"))
    assert both.reason is None


@requirement("HOOK-27")
@pytest.mark.parametrize("answer", [42, {"action": "bogus"}, modify({"self": ...})])
async def test_an_answer_that_cannot_be_used_denies_and_is_logged_with_its_handler(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if isinstance(answer, HookResult):
        assert answer.data is not None
        answer.data["self"] = answer.data

    result = await emit(HookResult(user_message="before"), answer)

    assert (result.action, result.reason) == ("deny", "Hook handler returned invalid response")
    assert [each.text for each in result.user_messages] == ["before"]
    (record,) = caplog.records
    assert "event=tool:pre" in record.getMessage()
    assert record.getMessage().partition("h1")[1]


@pytest.mark.parametrize(
    "answers",
    [
        [inject("one")],
        [inject("one"), inject("two")],
        [ask()],
        [modify({"n": 2})],
        [HookResult(user_message="told")],
    ],
)
async def test_output_is_suppressed_only_when_somebody_wishes_it(answers: list[Any]) -> None:
    assert (await emit(*answers)).suppress_output is False
