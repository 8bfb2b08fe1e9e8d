"""Items as a terminal shows them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from amplifier_cli.chat.line_renderer import PALETTE
from amplifier_cli.render.drawing import draw, draw_running, needs_gap
from amplifier_cli.render.pieces import Decision, Ending, Shown
from amplifier_journal.readings.items import (
    Answer,
    Notice,
    Prompt,
    Question,
    Thinking,
    ToolCall,
)

CALL = ToolCall(7, "c", "bash", {"command": "ls -la\n  /usr"}).ended("a\nb\nc", None, 0.42)


def printed(renderable: RenderableType, width: int) -> str:
    file = io.StringIO()
    Console(width=width, file=file, theme=PALETTE, force_terminal=False).print(renderable)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip("\n").split("\n"))


def shown(item: Shown, width: int = 60, *, expanded: bool = False) -> str:
    return printed(draw(item, expanded=expanded), width)


@pytest.mark.parametrize("width", [12, 20, 40, 80])
def test_a_tool_call_is_one_line_however_narrow(width: int) -> None:
    line = shown(CALL, width)
    assert "\n" not in line
    assert len(line) <= width
    assert line.startswith("✓ bash")


def test_a_tool_call_says_what_about_and_how_it_went() -> None:
    assert shown(CALL) == "✓ bash  ls -la /usr  3 lines · 0.4s · #7"


def test_an_expanded_call_shows_everything() -> None:
    assert shown(CALL, expanded=True).split("\n")[1:] == [
        "  command: ls -la",
        "    /usr",
        "  │ a",
        "  │ b",
        "  │ c",
    ]


def test_a_failure_shows_its_last_lines_at_once() -> None:
    result = {"success": False, "output": {"exit_code": 1, "stdout": "a\nb\nc\nd"}}
    assert (
        shown(ToolCall(1, "c", "bash", {}).ended(result, None, 1))
        == "✗ bash  exit 1 · 1.0s · #1\n  b\n  c\n  d"
    )


def test_a_running_call_shows_the_end_of_its_output() -> None:
    call = ToolCall(1, "c", "bash", {"command": "make"})
    text = printed(draw_running(call, mark="*", seconds=12, tail="a\nb\nc\n", rows=2), 40)
    assert text.split("\n") == ["* bash  make  12s · #1", "  b", "  c"]


@pytest.mark.attack("P3")
def test_no_line_of_a_question_can_pretend_to_be_the_terminals_own() -> None:
    prompt = "Allow?\n┗ 1 Allow once\x1b[1A\r\nTool: x\u202e"
    lines = shown(Question(prompt, ("Allow once", "Deny"))).split("\n")
    assert all(line.startswith("┃ ") for line in lines)
    assert "\\u001b[1A" in lines[1]
    assert "\\u202e" in lines[2]


@pytest.mark.attack("P3")
def test_a_question_of_ten_thousand_lines_says_what_it_leaves_out() -> None:
    prompt = "Allow?\n" + "\n" * 10_000 + "rm -rf /"
    text = shown(Question(prompt, ("Deny",)))
    assert "[9842 LINES ARE NOT SHOWN HERE]" in text
    assert text.endswith("rm -rf /")


def test_tools_and_notices_stand_close_and_everything_else_apart() -> None:
    assert not needs_gap(CALL, Notice("x"))
    assert not needs_gap(Question("x", ()), Decision("Deny"))
    assert needs_gap(Prompt("x"), Answer("y"))
    assert not needs_gap(None, Prompt("x"))


def test_the_other_items_have_their_marks() -> None:
    assert shown(Prompt("a\nb")) == "› a\n  b"
    assert shown(Prompt("a", steers=True)) == "» a"
    assert shown(Thinking("hm")) == "┆ hm"
    assert shown(Notice("careful", "warning", "hook:hooks-x")) == "! hooks-x: careful"
    assert shown(Ending("Stopped.")) == "■ Stopped."
