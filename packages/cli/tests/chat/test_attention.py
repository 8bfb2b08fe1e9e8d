"""Calling the user: only what a terminal understands, and only what is wanted."""

from __future__ import annotations

from time import monotonic

import pytest

from amplifier_cli.attention import Attention

XTERM = {"TERM": "xterm-256color"}


def attention(environment: dict[str, str], **wanted: bool) -> tuple[Attention, list[str]]:
    written: list[str] = []
    return Attention(written.append, wanted, environment), written


@pytest.mark.parametrize(
    ("environment", "note"),
    [
        (XTERM, "\x1b]9;amplifier: Allow this command?\a"),
        ({**XTERM, "VTE_VERSION": "7600"}, "\x1b]777;notify;amplifier;Allow this command?\a"),
        ({"TERM": "foot"}, "\x1b]777;notify;amplifier;Allow this command?\a"),
        (
            {"TERM": "tmux-256color", "TMUX": "/tmp/x,1,0"},
            "\x1bPtmux;\x1b\x1b]9;amplifier: Allow this command?\a\x1b\\",
        ),
    ],
)
def test_a_note_is_one_sequence_that_the_terminal_knows(
    environment: dict[str, str], note: str
) -> None:
    caller, written = attention(environment)

    caller.call("Allow this command?")

    assert written == ["\a", note]


@pytest.mark.parametrize("term", ["dumb", "linux", "", "unknown"])
def test_a_terminal_that_knows_no_sequences_gets_the_bell_alone(term: str) -> None:
    caller, written = attention({"TERM": term})

    caller.call("Allow?")
    caller.title("amplifier")
    caller.restore_title()

    assert written == ["\a"]


@pytest.mark.attack("P3")
def test_no_text_can_end_the_sequence_or_begin_another() -> None:
    caller, written = attention(XTERM)

    caller.call("a\x07b\x1b]0;evil\x1b\\c;d\u202e\n" + "x" * 500)
    caller.title("e\x9c\x1b[2Jf")

    for sequence in written[1:]:
        text = sequence.removeprefix("\x1b[22;2t").removeprefix("\x1b]").removesuffix("\a")
        assert text.isprintable()
        assert text.count(";") == 1
        assert len(text) < 130


def test_what_is_not_wanted_is_not_written() -> None:
    caller, written = attention(XTERM, bell=False, notes=False, title=False)

    caller.call("Allow?")
    caller.title("amplifier")
    caller.restore_title()

    assert written == []


def test_the_title_is_set_when_it_changes_and_given_back() -> None:
    caller, written = attention(XTERM)

    for title in ("one", "one", "two"):
        caller.title(title)
    caller.restore_title()

    assert written == [
        "\x1b[22;2t\x1b]2;one\a",
        "\x1b]2;two\a",
        "\x1b]2;\a\x1b[23;2t",
    ]


def test_the_end_of_a_turn_is_told_only_if_the_user_was_away() -> None:
    caller, written = attention(XTERM)

    caller.tell_end(monotonic() - 5)
    assert written == []
    caller.tell_end(monotonic() - 60)
    assert written == ["\a", "\x1b]9;amplifier: The turn has ended.\a"]
