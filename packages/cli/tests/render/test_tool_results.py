"""What a tool was asked and what came of it."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_cli.render.tool_results import Outcome, arguments_line, outcome_of
from amplifier_journal.readings.items import ToolCall

CALL = ToolCall(1, "c", "bash", {})


def _command(code: int | None, stdout: str, stderr: str) -> dict[str, Any]:
    return {"success": True, "output": {"exit_code": code, "stdout": stdout, "stderr": stderr}}


def test_the_telling_argument_comes_first() -> None:
    line = arguments_line({"limit": 3, "command": "ls\n -la", "note": "\x1b[2J"})
    assert line == "ls -la  limit=3  note=\\u001b[2J"


@pytest.mark.parametrize(
    ("result", "error", "expected"),
    [
        ({"success": True, "output": "a\nb"}, None, ("done", "2 lines", "a\nb")),
        ({"success": False, "error": {"message": "no\nway"}}, None, ("failed", "no", "no\nway")),
        (_command(2, "", "bad\n"), None, ("failed", "exit 2", "bad")),
        (_command(None, "x", ""), None, ("failed", "stopped", "x")),
        (None, {"type": "TimeoutError", "msg": "too long"}, ("failed", "too long", "too long")),
        ("plain", None, ("done", "1 line", "plain")),
        (None, None, ("done", "no output", "")),
    ],
)
def test_outcomes_are_told_in_few_words_and_in_full(
    result: Any, error: Any, expected: tuple[str, str, str]
) -> None:
    assert outcome_of(CALL.ended(result, error))[:3] == expected


def test_a_call_without_a_result_has_the_reason_and_what_it_wrote() -> None:
    denied = CALL.settled("Denied by hook: not\nhere")
    assert outcome_of(denied) == Outcome("denied", "not here", "Denied by hook: not\nhere")
    assert outcome_of(CALL.settled("", "begun\r\n")) == Outcome(
        "interrupted", "no result", "begun\n"
    )
    assert outcome_of(CALL) == Outcome("running", "", "")


def test_the_change_of_a_file_is_counted_and_has_its_line_numbers() -> None:
    said = "Edited x.\n@@ -1,2 +1,2 @@\n one\n-two\n+three"

    told = outcome_of(CALL.ended({"success": True, "output": said}, None))

    assert told.summary == "+1 -1"
    assert [line.split() for line in told.diff] == [
        ["1", "one"],
        ["2", "-", "two"],
        ["2", "+", "three"],
    ]
