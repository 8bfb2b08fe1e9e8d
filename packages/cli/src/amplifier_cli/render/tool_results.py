"""Render the arguments and the outcome of a tool call, in short and in full."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from amplifier_cli.question_pages import signed_lines
from amplifier_cli.render.plain import lines_of, message_of, one_line, program_output
from amplifier_journal.readings.items import ToolCall, ToolState
from amplifier_kit.questions import diff_lines, is_diff
from amplifier_sandbox.visible_text import json_text

# Names of the argument that best says what a call is about, the most common first.
_TELLING = (
    "command", "file_path", "path", "pattern", "query", "url", "prompt", "instruction", "name",
)  # fmt: skip
_DIFFERENCES = ("diff", "difference")
_TEXTS = ("content", "text", "answer", "result", "response", "message")


class Outcome(NamedTuple):
    """How a call ended: its state, a short summary and the full output.

    `diff` is the change that it made to a file, as lines with their numbers.
    """

    state: ToolState
    summary: str
    output: str
    diff: tuple[str, ...] = ()


def arguments_line(arguments: Any) -> str:
    """Return the arguments of a call in one line, the most informative one first."""
    if not isinstance(arguments, dict):
        if arguments is None:
            return ""
        return one_line(str(arguments))
    named = cast("dict[str, Any]", arguments)
    first = next((name for name in _TELLING if isinstance(named.get(name), str)), None)
    parts = [] if first is None else [one_line(named[first])]
    for name, value in named.items():
        if name != first:
            short = value if isinstance(value, str) else json_text(value)
            parts.append(f"{name}={one_line(short)}")
    return "  ".join(parts)


def arguments_text(arguments: Any) -> str:
    """Return the arguments of a call in full, one below the other."""
    if not isinstance(arguments, dict):
        if arguments is None:
            return ""
        return program_output(str(arguments))
    named = cast("dict[str, Any]", arguments)
    return "\n".join(f"{name}: {_text(value)}" for name, value in named.items())


def outcome_of(call: ToolCall) -> Outcome:
    """Return the outcome of a call; a command with an exit code other than 0 has failed."""
    if call.state in ("waiting", "running"):
        return Outcome(call.state, "", "")
    if call.state in ("denied", "interrupted"):
        summary = one_line(call.said.removeprefix("Denied by hook: ")) if call.said else "no result"
        return Outcome(call.state, summary, program_output(call.written) or call.said)
    if call.error is not None:
        message = message_of(call.error)
        return Outcome("failed", _headline(message), program_output(message))
    result = call.result
    if not isinstance(result, dict) or "success" not in result:
        text = program_output(_text(result))
        return Outcome("done", lines_of(text), text)
    facts = cast("dict[str, Any]", result)
    output = facts.get("output")
    failure = facts.get("error")
    if not facts["success"]:
        return _failure(output, failure)
    if isinstance(output, dict) and "exit_code" in output:
        return _command(cast("dict[str, Any]", output))
    if isinstance(output, str):
        # A tool that changes a file says what it did, and shows the difference below.
        diff = output.partition("\n")[2]
        if is_diff(diff):
            return _change(output, diff_lines(diff))
    text = program_output(_text(output))
    return Outcome("done", lines_of(text), text)


def _change(output: str, diff: list[str]) -> Outcome:
    signs = [sign for _, sign in signed_lines(diff)]
    summary = f"+{signs.count('+')} -{signs.count('-')}"
    return Outcome("done", summary, program_output(output), tuple(diff))


def _failure(output: Any, failure: Any) -> Outcome:
    if isinstance(output, dict) and "exit_code" in output:
        return _command(cast("dict[str, Any]", output))._replace(state="failed")
    if failure:
        message = message_of(failure)
    else:
        message = _text(output) or "failed"
    return Outcome("failed", _headline(message), program_output(message))


def _command(output: dict[str, Any]) -> Outcome:
    parts = [str(output.get(name) or "") for name in ("stdout", "stderr", "trouble")]
    text = program_output("\n".join(part.rstrip("\n") for part in parts if part.strip()))
    code = output["exit_code"]
    if code == 0:
        return Outcome("done", lines_of(text), text)
    return Outcome("failed", "stopped" if code is None else f"exit {code}", text)


def _headline(message: str) -> str:
    return one_line(message.strip().split("\n", 1)[0])


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        facts = cast("dict[str, Any]", value)
        for key in (*_DIFFERENCES, *_TEXTS):
            if isinstance(facts.get(key), str) and facts[key].strip():
                return facts[key]
    return json_text(value, indent=2)
