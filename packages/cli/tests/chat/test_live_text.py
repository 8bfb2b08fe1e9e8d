"""The answer that still arrives."""

from __future__ import annotations

from amplifier_cli.chat.live_view import LiveText
from amplifier_journal.readings.items import Answer, Thinking


def live_text(kind: str = "text") -> tuple[LiveText, list[str]]:
    kept: list[str] = []
    return LiveText(kind, "r", lambda data: kept.append(str(data["text"]))), kept


def test_nothing_shows_that_is_not_kept_and_no_word_is_cut() -> None:
    text, kept = live_text()
    text.add("Hello wor")
    assert text.advance() == []
    assert (text.tail, kept) == ("Hello ", ["Hello "])
    text.add("ld. ")
    text.advance()
    assert (text.tail, kept) == ("Hello world. ", ["Hello ", "world. "])


def test_finished_blocks_leave_and_the_rest_stays() -> None:
    text, kept = live_text()
    text.add("One.\n\nTwo.\n\nThree is ")
    assert text.advance() == [Answer("One."), Answer("Two.")]
    assert text.tail == "Three is "
    text.add("unfinished")
    assert text.finish() == [Answer("Three is unfinished")]
    assert "".join(kept) == text.text == "One.\n\nTwo.\n\nThree is unfinished"


def test_writing_without_blanks_shows_as_it_comes() -> None:
    text, _ = live_text()
    text.add("漢字か")
    text.advance()
    assert text.tail == "漢字か"


def test_thoughts_come_as_a_whole() -> None:
    text, _ = live_text("thinking")
    text.add("Let me\n\nsee.")
    assert text.advance() == []
    assert text.finish() == [Thinking("Let me\n\nsee.")]
