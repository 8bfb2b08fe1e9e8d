"""Items in the words and parts of this command, on the screen and in a file."""

from __future__ import annotations

from amplifier_cli.render.export import as_markdown
from amplifier_cli.render.pieces import Decision, Ending, pieces
from amplifier_journal.readings.items import (
    Answer,
    Cancellation,
    Child,
    Fork,
    Gap,
    HookFailure,
    Notice,
    Prompt,
    Question,
    Retry,
    Rewind,
    ToolCall,
    TurnEnd,
)


def test_an_answer_is_put_on_the_screen_block_by_block() -> None:
    assert pieces(Answer("a\n\nb")) == [Answer("a"), Answer("b")]


def test_a_decision_stands_below_its_question() -> None:
    asked = Question("x", ("Deny",), "Deny")
    assert pieces(asked) == [Question("x", ("Deny",)), Decision("Deny")]


def test_a_turn_that_ends_well_has_no_line_and_any_other_has_one() -> None:
    assert pieces(TurnEnd("completed", "Done.")) == []
    assert pieces(TurnEnd("cancelled")) == [Ending("Stopped. What was said and done is kept.")]
    failed = TurnEnd("error", error={"type": "LLMError", "message": "no"})
    assert pieces(failed) == [Ending("The turn failed. LLMError: no", "error")]
    assert pieces(Gap()) == [Ending("The process ended here. What was said and done is kept.")]


def test_what_happens_besides_is_a_notice_or_nothing() -> None:
    again = "RateLimitError: trying again in 2.0s."
    assert pieces(Retry("RateLimitError", 2.0)) == [Notice(again, "warning", "provider")]
    failed = Notice("h failed on tool:pre: no", "warning", "hooks")
    assert pieces(HookFailure("h", "tool:pre", "no")) == [failed]
    assert pieces(Rewind(3, "files")) == [Notice("Taken back to record 3: files.")]
    assert pieces(Fork("s-0", 7)) == [Notice("A copy of s-0 continues here.")]
    assert pieces(Child("s-1", has_ended=True)) == pieces(Cancellation(immediate=True)) == []


def test_an_export_has_everything_and_no_fence_breaks_out() -> None:
    call = ToolCall(1, "c", "bash", {"command": "x"}).ended("```\nout", None, 1)
    asked = Question("Allow?", ("Allow", "Deny"), "Allow")
    text = as_markdown(
        "Talk", [Prompt("do it"), asked, call, Answer("Done."), TurnEnd("completed")]
    )
    assert text.startswith(
        "# Talk\n\n## do it\n\n```\nAllow?\n```\n\n→ Allow\n\n**bash** (done)\n\n````\n"
    )
    assert text.endswith("````\n\nDone.\n")
