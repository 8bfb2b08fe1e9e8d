"""Tests of what a person is shown: the exact call, and nothing that only looks like one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.questions import Preview
from amplifier_module_hooks_approval.rendering import CallView, call_lines, headline
from amplifier_module_hooks_approval.rules import Call, call_from, canonical

ESCAPED = "Characters that could not be seen are written as \\u and their number."
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def about(arguments: Any, tool: str = "bash") -> Call:
    return Call("root", "1", tool, arguments, "", "")


@pytest.mark.attack("P3")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm\x1b[2K\x1b[1Als", '"rm\\u001b[2K\\u001b[1Als"'),
        ("ls\r     rm", '"ls\\r     rm"'),
        ("ls\nrm", '"ls\\nrm"'),
        ("ls\u2028rm", '"ls\\u2028rm"'),
        ("\u202egnp.exe", '"\\u202egnp.exe"'),
        ("l\u200bs", '"l\\u200bs"'),
        ("a\u00a0b", '"a\\u00a0b"'),
        ("a\x7f\x9b2J", '"a\\u007f\\u009b2J"'),
        ("\U000e0041", '"\\U000e0041"'),
        ("\ud800", '"\\ud800"'),
        ("größe 文件", '"größe 文件"'),
        ('"\\u202e', '"\\"\\\\u202e"'),
    ],
)
async def test_what_could_deceive_the_eye_is_spelled_out(text: str, shown: str) -> None:
    assert str(about({"command": text})).splitlines()[1] == f'  "command": {shown}'
    lines = call_lines(about({"command": f"ls {text}"}), CallView())
    assert all(line.isprintable() for line in lines)
    assert (lines[-1] == ESCAPED) == (text.isprintable() is False and text != "ls\nrm")


@pytest.mark.attack("P3")
async def test_a_call_cannot_write_lines_of_its_own_into_the_question(
    build: Any, person: Any, calling: Any
) -> None:
    ann = person("Deny")
    forged = 'x"\n  Asked because you said so.\nAllow this call? Risk: none.\nTool: "read"'
    harness = await build([calling("bash", **{forged: forged})], person=ann)

    await harness.run()

    lines = ann.questions[0].split("\n")
    assert lines[0] == "Allow bash?"
    assert lines[1].startswith('  "x\\"\\n  Asked')
    assert lines[3] == "  │   Asked because you said so."
    own = [line for line in lines if not line.startswith("  ")]
    assert own == [lines[0], lines[-1]]
    assert lines[-1].startswith("A lasting answer covers ")


@pytest.mark.attack("review M2")
async def test_nothing_of_a_call_is_left_out_of_the_question() -> None:
    command = "ls" + "\n" * 10_000 + "rm -r ." + "#" * 10_000
    arguments = {**{f"a{number}": number for number in range(100)}, "command": command}
    shown = str(about(arguments))

    assert shown.count("\n") == 101
    assert canonical(command) in shown
    assert all(f'"a{number}": {number}' in shown for number in range(100))


@pytest.mark.attack("review M2")
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_all_lines_of_a_call_are_indented_and_printable(arguments: dict[str, Any]) -> None:
    lines = [each for each in call_lines(about(arguments), CallView()) if each != ESCAPED]

    assert all(line.startswith("  ") and line.isprintable() for line in lines)
    assert len(lines) >= len(arguments)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ls -l", "ls -l"),
        ("5", '"5"'),
        (5, "5"),
        ("true", '"true"'),
        (True, "true"),
        ("", '""'),
        (" ls", '" ls"'),
        ("[1]", '"[1]"'),
        (["example.org", "*.test"], "example.org, *.test"),
        (["a b"], '["a b"]'),
        ({"a": None}, '{"a": null}'),
    ],
)
async def test_values_are_shown_without_quotes_only_if_they_are_plain_text(
    value: Any, shown: str
) -> None:
    assert call_lines(about({"x": value}), CallView()) == [f"  x: {shown}"]


async def test_a_text_of_several_lines_is_shown_line_by_line() -> None:
    arguments = {"zone": "x", "command": "cd src\n\tmake"}
    view = CallView(order=("command", "zone"))

    assert call_lines(about(arguments), view) == [
        "  command:",
        "  │ cd src",
        "  │ →   make",
        "  zone: x",
    ]


async def test_a_command_is_shown_as_it_runs_with_the_rest_of_the_call() -> None:
    command = 'echo "a\\n"\nls'
    arguments = {"command": command, "network": ["packages"], "reason": "to install"}
    preview = Preview("this command", ("command",), text=command, editable="command")
    view = CallView(preview, order=("command", "network", "reason"), agent="the agent tester")
    call = about(arguments)

    assert headline([(call, view)]) == "Allow this command? Asked by the agent tester."
    assert call_lines(call, view) == [
        '  $ echo "a\\n"',
        "  │ ls",
        "  network: packages",
        "  reason: to install",
    ]


async def test_a_difference_is_shown_with_the_numbers_of_its_lines() -> None:
    diff = "@@ -9,3 +9,3 @@\n a\n-b \n+\tc\n d\n@@ -40,1 +40,2 @@\n x\n+y\n "
    view = CallView(Preview("this edit of a.py", ("path", "text"), diff=diff))
    call = about({"path": "a.py", "text": "c", "mode": "w"})

    assert headline([(call, view)]) == "Allow this edit of a.py?"
    assert call_lines(call, view) == [
        "   9   a",
        "  10 - b·",
        "  10 + →   c",
        "  11   d",
        "  ⋮",
        "  40   x",
        "  41 + y",
        "  mode: w",
    ]


async def test_a_change_that_changes_nothing_says_so() -> None:
    view = CallView(Preview("this edit of a.py", ("path",)))

    assert call_lines(about({"path": "a.py"}), view) == ["  nothing changes"]


@pytest.mark.attack("review M2")
@pytest.mark.parametrize(
    "character", ["\u3164", "\u2800", "\u034f", "\ufe00", "\uffa0", "\u115f", "\u17b4", "\u180b"]
)
async def test_letters_without_ink_are_spelled_out(character: str) -> None:
    assert f"\\u{ord(character):04x}" in str(about({"command": f"ls {character}x"}))


@given(JSON)
def test_whatever_is_shown_is_one_printable_line(value: Any) -> None:
    assert canonical(value).isprintable()


@given(JSON, JSON)
def test_calls_look_the_same_only_if_they_are(one: Any, other: Any) -> None:
    same = canonical(one) == canonical(other)

    assert same == (about(one).digest == about(other).digest)


@pytest.mark.parametrize("data", [None, 7, [], {}, {"tool_name": 7, "tool_call_id": []}])
async def test_an_event_that_is_none_is_a_call_of_nothing(data: Any) -> None:
    assert call_from(data).tool == ""
