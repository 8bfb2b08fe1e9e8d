"""Items: what a log shows to whoever looks at a session, in the order in which it happened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from amplifier_journal.readings.items import (
    Answer,
    Child,
    Fork,
    Gap,
    HookFailure,
    Item,
    Items,
    Notice,
    Prompt,
    Question,
    Retry,
    Rewind,
    ToolCall,
    TurnEnd,
    items_of,
)


class Line(NamedTuple):
    kind: str
    data: dict[str, Any]


def event(name: str, **data: Any) -> Line:
    return Line("event", {"name": name, "data": data})


def answered(text: str) -> Line:
    return Line("model.result", {"response": {"content": [{"type": "text", "text": text}]}})


def items(*lines: Line) -> list[Item]:
    return list(items_of(lines))


PROMPT = Line("prompt", {"text": "do it", "turn": 1})
ENDED = Line("turn.ended", {"stop_reason": "completed", "answer": "Done."})
CALL = Line(
    "tool.call", {"call": "1.2", "tool_call_id": "c", "tool": "bash", "input": {"command": "x"}}
)
PRE = event("tool:pre", tool_call_id="c", tool_name="bash", tool_input={"command": "x"})


def streamed(text: str, **more: Any) -> Line:
    return Line("stream", {"request_id": "r", "block_type": "text", "text": text, **more})


def test_a_whole_turn_comes_back_in_its_order() -> None:
    result = Line(
        "tool.result", {"call": "1.2", "seconds": 2, "result": {"success": True, "output": "a\nb"}}
    )
    shown = items(
        PROMPT, streamed("I ", begins=True), streamed("look."), answered("I look."),
        PRE, CALL, result, answered("Done."), ENDED,
    )  # fmt: skip
    call = ToolCall(1, "c", "bash", {"command": "x"})
    assert shown == [
        Prompt("do it", 1),
        Answer("I look."),
        call.ended({"success": True, "output": "a\nb"}, None, 2),
        Answer("Done."),
        TurnEnd("completed", "Done."),
    ]


def test_an_answer_that_is_announced_when_it_is_whole_is_there_once() -> None:
    second = Line("model.call", {"call": "1.3"})
    shown = items(
        PROMPT, answered("I look."), streamed("I look.", begins=True),
        second, streamed("Do", begins=True), streamed("ne."), Line("turn.ended", {"turn": 1}),
    )  # fmt: skip
    assert shown[:-1] == [Prompt("do it", 1), Answer("I look."), Answer("Done.")]


def test_words_that_were_shown_before_the_process_died_are_there() -> None:
    reading = Items()
    for line in (PROMPT, streamed("First.\n\n", begins=True), streamed("Half a ")):
        reading.take(line)
    assert reading.unfinished_text == "First.\n\nHalf a "
    assert reading.cut_short() == [Answer("First.\n\nHalf a "), Gap()]


def test_what_was_cut_short_is_told_once_and_in_its_place() -> None:
    opened = Line("session.opened", {"resumed": True})
    remembered = Line(
        "message", {"message": {"role": "assistant", "metadata": {"interrupted": True}}}
    )
    shown = items(PROMPT, streamed("Half", begins=True), opened, remembered, opened, PROMPT, ENDED)
    assert shown == [
        Prompt("do it", 1),
        Answer("Half"),
        Gap(),
        Prompt("do it", 1),
        Answer("Done."),
        TurnEnd("completed", "Done."),
    ]


def test_a_tool_that_was_running_shows_what_it_had_written() -> None:
    shown = items(PROMPT, PRE, CALL, event("tool:output", tool_call_id="c", text="begun\n"))
    call = shown[1]
    assert isinstance(call, ToolCall)
    assert (call.state, call.written, call.said) == ("interrupted", "begun\n", "")


def test_a_denied_call_is_there_with_the_reason_and_once() -> None:
    said = {"role": "tool", "tool_call_id": "c", "content": "Denied by hook: not here"}
    shown = items(PROMPT, PRE, event("approval:denied", tool_call_id="c", reason="not here"),
                  Line("message", {"message": said}), ENDED)  # fmt: skip
    calls = [each for each in shown if isinstance(each, ToolCall)]
    assert [(each.state, each.said) for each in calls] == [("denied", "Denied by hook: not here")]


def test_a_call_that_was_refused_before_it_was_announced_is_there_once() -> None:
    failure = {"type": "ValueError", "msg": "`.git` is protected"}
    facts = {"tool_call_id": "c", "tool_name": "write_file", "tool_input": {}, "error": failure}
    said = {"role": "tool", "tool_call_id": "c", "content": "Error executing tool"}
    refused = event("tool:error", **facts)
    shown = items(PROMPT, refused, refused, Line("message", {"message": said}), ENDED)
    calls = [each for each in shown if isinstance(each, ToolCall)]
    assert [(each.name, each.state, each.error) for each in calls] == [
        ("write_file", "failed", failure)
    ]


@pytest.mark.parametrize("kind", ["approval.asked", "asked"])
def test_a_question_is_there_whether_it_was_answered_or_not(kind: str) -> None:
    facts = {"prompt": "Allow?", "options": ["Allow once", "Deny"]}
    asked = Line(kind, facts)
    decided = Line("approval", {**facts, "decision": "Deny"})
    question = Question("Allow?", ("Allow once", "Deny"))
    assert items(PROMPT, asked, decided)[1] == replace(question, decision="Deny")
    assert items(PROMPT, asked)[1] == replace(question, decision="no answer")
    assert Items().take(asked) == [question]


def test_a_question_that_the_chat_recorded_too_is_there_once() -> None:
    facts = {"prompt": "Allow?", "options": ["Allow once", "Deny"]}
    decided = Line("approval", {**facts, "decision": "Deny"})
    shown = items(PROMPT, Line("approval.asked", facts), Line("asked", facts), decided)
    assert len([each for each in shown if isinstance(each, Question)]) == 1


def test_a_decision_belongs_to_the_question_of_its_id() -> None:
    """The offer in a question may end at another time when it is asked again."""
    asked = Line("approval.asked", {"approval_id": "a", "prompt": "until 1"})
    decided = Line("approval", {"approval_id": "a", "prompt": "until 2", "decision": "Deny"})
    assert items(PROMPT, asked, decided)[1:-1] == [Question("until 1", (), "Deny")]


def test_a_call_that_runs_comes_again_when_it_has_ended() -> None:
    reading = Items(calls_before=4)
    begun = [item for line in (PRE, CALL) for item in reading.take(line)]
    result = Line("tool.result", {"call": "1.2", "result": {"success": False}})
    call = ToolCall(5, "c", "bash", {"command": "x"})
    assert begun == [call, call]
    assert reading.take(result) == [call.ended({"success": False}, None)]


def test_what_a_model_says_to_another_module_is_not_said_to_the_user() -> None:
    inner = Line("model.call", {"call": "1.2", "inside": "1.1"})
    said = Line("model.result", {**answered("Aside.").data, "call": "1.2"})
    assert Answer("Aside.") not in items(PROMPT, inner, said, answered("Done."), ENDED)


def test_children_copies_and_what_was_set_back_are_items() -> None:
    shown = items(
        Line("child", {"session_id": "s-1", "inside": "1.1"}),
        Line("child.ended", {"session_id": "s-1"}),
        Line("fork", {"from": "s-0", "at": 7}),
        Line("rewind", {"at": 3, "what": "files"}),
        event("hook:failed", handler="h", event="tool:pre", error="no"),
    )
    assert shown == [
        Child("s-1", has_ended=True),
        Fork("s-0", 7),
        Rewind(3, "files"),
        HookFailure("h", "tool:pre", "no"),
    ]


def test_a_stopped_turn_keeps_its_words_and_says_so() -> None:
    cancelled = Line("model.result", {"error": {"type": "CancelledError"}})
    ended = Line("turn.ended", {"stop_reason": "cancelled", "answer": None})
    shown = items(PROMPT, streamed("Half", begins=True), cancelled, ended)
    assert shown[1:] == [Answer("Half"), TurnEnd("cancelled")]


def test_notices_and_steering_and_failures_are_lines() -> None:
    shown = items(
        PROMPT,
        Line("display", {"message": "careful", "level": "warning", "source": "hook:x"}),
        event("orchestrator:steering_injected", text="in French"),
        event("provider:retry", error_type="RateLimitError", delay=2),
        Line(
            "turn.ended", {"stop_reason": "error", "error": {"type": "LLMError", "message": "no"}}
        ),
    )
    assert shown[1:] == [
        Notice("careful", "warning", "hook:x"),
        Prompt("in French", steers=True),
        Retry("RateLimitError", 2.0),
        TurnEnd("error", error={"type": "LLMError", "message": "no"}),
    ]
