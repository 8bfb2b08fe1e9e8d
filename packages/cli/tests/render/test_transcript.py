"""The conversation of a log, as it was on the screen."""

from __future__ import annotations

from typing import Any, NamedTuple

from amplifier_cli.render.export import as_markdown
from amplifier_cli.render.items import Answer, Ending, Item, Notice, Prompt, Question, ToolRun
from amplifier_cli.render.transcript import CUT_SHORT, Transcript, transcript


class Line(NamedTuple):
    kind: str
    data: dict[str, Any]


def event(name: str, **data: Any) -> Line:
    return Line("event", {"name": name, "data": data})


def answered(text: str) -> Line:
    return Line("model.result", {"response": {"content": [{"type": "text", "text": text}]}})


def items(*lines: Line) -> list[Item]:
    return list(transcript(lines))


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
    assert shown == [
        Prompt("do it"),
        Answer("I look."),
        ToolRun(1, "c", "bash", {"command": "x"}, "done", 2.0, "2 lines", "a\nb"),
        Answer("Done."),
    ]


def test_words_that_were_shown_before_the_process_died_are_there() -> None:
    reading = Transcript()
    for line in (PROMPT, streamed("First.\n\n", begins=True), streamed("Half a ")):
        list(reading.read(line))
    assert reading.unfinished_text == "First.\n\nHalf a "
    assert reading.cut_short() == [Answer("First.\n\nHalf a "), Ending(CUT_SHORT)]


def test_what_was_cut_short_is_told_once_and_in_its_place() -> None:
    opened = Line("session.opened", {"resumed": True})
    remembered = Line(
        "message", {"message": {"role": "assistant", "metadata": {"interrupted": True}}}
    )
    shown = items(PROMPT, streamed("Half", begins=True), opened, remembered, opened, PROMPT, ENDED)
    assert shown == [
        Prompt("do it"),
        Answer("Half"),
        Ending(CUT_SHORT),
        Prompt("do it"),
        Answer("Done."),
    ]


def test_a_tool_that_was_running_shows_what_it_had_written() -> None:
    shown = items(PROMPT, PRE, CALL, event("tool:output", tool_call_id="c", text="begun\n"))
    run = shown[1]
    assert isinstance(run, ToolRun)
    assert (run.state, run.output, run.summary) == ("interrupted", "begun\n", "no result")


def test_a_denied_call_is_there_with_the_reason_and_once() -> None:
    said = {"role": "tool", "tool_call_id": "c", "content": "Denied by hook: not here"}
    shown = items(PROMPT, PRE, event("approval:denied", tool_call_id="c", reason="not here"),
                  Line("message", {"message": said}), ENDED)  # fmt: skip
    runs = [each for each in shown if isinstance(each, ToolRun)]
    assert [(run.state, run.summary) for run in runs] == [("denied", "not here")]


def test_a_question_is_there_whether_it_was_answered_or_not() -> None:
    asked = {"prompt": "Allow?", "options": ["Allow once", "Deny"]}
    options = ["Allow once", "Deny"]
    answered_ = Line("approval", {**asked, "decision": "Deny"})
    assert items(PROMPT, Line("asked", asked), answered_)[1] == Question("Allow?", options, "Deny")
    assert items(PROMPT, Line("asked", asked))[1] == Question("Allow?", options, "no answer")


def test_a_stopped_turn_keeps_its_words_and_says_so() -> None:
    cancelled = Line("model.result", {"error": {"type": "CancelledError"}})
    ended = Line("turn.ended", {"stop_reason": "cancelled", "answer": None})
    shown = items(PROMPT, streamed("Half", begins=True), cancelled, ended)
    assert shown[1] == Answer("Half")
    assert isinstance(shown[2], Ending)


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
        Notice("careful", "warning", "x"),
        Prompt("in French", steers=True),
        Notice("RateLimitError: trying again in 2.0s.", "warning", "provider"),
        Ending("The turn failed. LLMError: no", "error"),
    ]


def test_an_export_has_everything_and_no_fence_breaks_out() -> None:
    text = as_markdown(
        "Talk",
        [
            Prompt("do it"),
            ToolRun(1, "c", "bash", {"command": "x"}, "done", 1, "", "```\nout"),
            Answer("Done."),
        ],
    )
    assert text.startswith("# Talk\n\n## do it\n\n**bash** (done)\n\n````\n")
    assert text.endswith("````\n\nDone.\n")
