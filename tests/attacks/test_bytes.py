"""Any bytes are survivable: no text in a prompt, an answer or a tool call ends a session."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from attacks.machine import Machine
from attacks.raw_server import DONE, RawServer, chunk
from end_to_end.chat_runs import ChatRun
from end_to_end.model_server import ModelServer, Said

_NESTED = "[" * 20_000 + "]" * 20_000


def _is_refused(result: subprocess.CompletedProcess[str]) -> None:
    """A failure is said in at most three lines, and without a traceback."""
    assert result.returncode not in (0, 70)
    assert "Traceback" not in result.stderr
    lines = [
        line for line in result.stderr.splitlines() if line.startswith(("error", "why", "next"))
    ]
    assert 1 <= len(lines) <= 3, result.stderr


def _sent(server: ModelServer) -> str:
    """Everything that the model was sent with the latest request."""
    return json.dumps(server.requests[-1]["messages"], ensure_ascii=False)


@pytest.mark.attack("review M5")
def test_an_emoji_split_over_two_deltas_is_joined_and_the_session_continues(
    machine: Machine,
) -> None:
    with ModelServer([Said(["well done \ud83d", "\ude00!"]), Said(["SECOND"])]) as server:
        machine.use(server)
        first = machine.amplifier("run", "hi")
        second = machine.amplifier("run", "--resume", "last", "are you there?")

    assert "well done \U0001f600!" in first.stdout, first.stderr
    assert first.returncode == 0
    assert "SECOND" in second.stdout, second.stderr
    assert "well done \U0001f600!" in _sent(server)


@pytest.mark.attack("review M5")
def test_a_prompt_that_is_not_utf_8_is_asked_or_refused(machine: Machine) -> None:
    with ModelServer([Said(["yes"])]) as server:
        machine.use(server)
        result = machine.amplifier("run", "caf\udce9")

    assert "Traceback" not in result.stderr
    if result.returncode:
        _is_refused(result)
    else:
        assert "yes" in result.stdout
        assert "caf" in _sent(server)


@pytest.mark.slow
@pytest.mark.attack("review M5")
def test_piped_text_that_is_not_utf_8_is_asked_or_refused(machine: Machine) -> None:
    with ModelServer([Said(["yes"])]) as server:
        machine.use(server)
        machine.environment["PYTHONIOENCODING"] = "utf-8:strict"
        result = machine.amplifier("run", "-", stdin="caf\udce9 \udcff\udcfe")

    assert "Traceback" not in result.stderr
    assert "yes" in result.stdout, result.stderr


@pytest.mark.slow
@pytest.mark.attack("review M5")
@pytest.mark.parametrize("answer", ["a\ud800b", "\udfff", "a\x00b", "\ude00\ud83d"])
def test_a_half_character_in_an_answer_leaves_a_session_that_continues(
    machine: Machine, answer: str
) -> None:
    with ModelServer([Said([answer]), Said(["SECOND"]), Said(["THIRD"])]) as server:
        machine.use(server)
        first = machine.amplifier("run", "hi")
        second = machine.amplifier("run", "--resume", "last", "there?")
        forked = machine.amplifier("session", "fork", "last")
        third = machine.amplifier("run", "--resume", "last", "in the fork?")

    assert first.returncode == 0, first.stderr
    assert "SECOND" in second.stdout, second.stderr
    assert forked.returncode == 0, forked.stderr
    assert "THIRD" in third.stdout, third.stderr
    assert machine.amplifier("session", "show", "last").returncode == 0
    replayed = machine.amplifier("session", "replay", "last")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


@pytest.mark.slow
@pytest.mark.attack("review M5")
def test_a_half_character_in_a_tool_call_leaves_a_session_that_continues(machine: Machine) -> None:
    call = Said(calls=[("list_directory", {"path": "\ud800", "\udfff": "\x00"})])
    with ModelServer([call, Said(["done"]), Said(["SECOND"])]) as server:
        machine.use(server)
        first = machine.amplifier("run", "hi")
        second = machine.amplifier("run", "--resume", "last", "there?")

    assert "done" in first.stdout, first.stderr
    assert "SECOND" in second.stdout, second.stderr


def _break_logs(home: Path, word: str, spelled: str) -> int:
    """Write into every log what an older version wrote: half a character, spelled in ASCII."""
    changed = 0
    for log in home.rglob("*.jsonl"):
        lines: list[bytes] = []
        for line in log.read_bytes().splitlines():
            body, mark, _ = line.rpartition(b',"crc":"')
            if mark and word.encode() in body:
                changed += 1
                body = body.replace(word.encode(), spelled.encode())
                line = b'%b,"crc":"%08x"}' % (body, crc32(body))
            lines.append(line)
        log.write_bytes(b"".join(line + b"\n" for line in lines))
    return changed


@pytest.mark.attack("review M5")
def test_a_session_that_an_older_version_broke_opens_again(machine: Machine) -> None:
    with ModelServer([Said(["well WORD done"]), Said(["SECOND"])]) as server:
        machine.use(server)
        machine.amplifier("run", "hi")
        assert _break_logs(machine.home, "WORD", "\\ud83d") > 0
        second = machine.amplifier("run", "--resume", "last", "are you there?")

    assert "SECOND" in second.stdout, second.stderr
    assert "well \ufffd done" in _sent(server)


@pytest.mark.slow
@pytest.mark.attack("review M5")
def test_a_chat_continues_after_half_a_character(tmp_path: Path) -> None:
    answers = [Said(["well done \ud83d"]), Said(["SECOND"]), Said(["THIRD"])]
    with ModelServer(answers) as server, ChatRun(tmp_path, server).chat(TERM="dumb") as screen:
        screen.wait_until(lambda text: text.endswith(">"), "prompt")
        screen.type("hello")
        screen.press("Enter")
        screen.wait_for("well done \ufffd")
        screen.type("second question")
        screen.press("Enter")
        screen.wait_for("SECOND")
        screen.type("third question")
        screen.press("Enter")
        shown = screen.wait_for("THIRD")

    assert "Traceback" not in shown
    assert len(server.requests) == 3


def _provider(machine: Machine, url: str) -> None:
    config = {
        "base_url": url,
        "default_model": "m",
        "context_window": 200_000,
        "max_retries": 0,
    }
    entry = {"module": "provider-chat-completions", "config": config}
    machine.user_settings({"providers": [entry]})


_NESTED_EVENT = chunk({"content": "NESTED"}).replace('"NESTED"', _NESTED)
_SHAPES = {
    "a delta that is a list": [chunk([1, 2], "stop")],
    "a content that is an empty list": [chunk({"content": []}, "stop")],
    "calls that are a text": [chunk({"tool_calls": "x"}, "stop")],
    "choices that are a text": ['{"choices": "x"}', chunk({}, "stop")],
    "a content that is an object": [chunk({"content": {"a": 1}}, "stop")],
    "deep JSON": ['{"x": ' + _NESTED + "}"],
    "deep JSON in a text": [_NESTED_EVENT],
}
_QUICK = ("a delta that is a list", "deep JSON")


@pytest.mark.attack("review L7")
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(name, marks=() if name in _QUICK else pytest.mark.slow, id=name)
        for name in _SHAPES
    ],
)
def test_an_answer_of_the_wrong_shape_is_an_error_of_the_provider(
    machine: Machine, shape: str
) -> None:
    with RawServer(*_SHAPES[shape], DONE) as server:
        _provider(machine, server.url)
        result = machine.amplifier("run", "hi")

    assert server.requests == 1, result.stderr
    assert result.returncode == 5, result.stdout + result.stderr
    assert "RecursionError" not in result.stderr
    _is_refused(result)


@pytest.mark.slow
@pytest.mark.attack("review L7")
def test_deep_arguments_of_a_call_are_an_error_of_the_call_and_the_session_continues(
    machine: Machine,
) -> None:
    function = {"name": "list_directory", "arguments": '{"path": ' + _NESTED + "}"}
    call = {"index": 0, "id": "a", "type": "function", "function": function}
    with RawServer(chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), DONE) as server:
        _provider(machine, server.url)
        first = machine.amplifier("run", "hi")
    with ModelServer([Said(["SECOND"])]) as good:
        _provider(machine, good.url)
        second = machine.amplifier("run", "--resume", "last", "there?")

    assert "RecursionError" not in first.stderr
    assert "Traceback" not in first.stderr
    # The server makes the same call again and again, so that the turn ends for that.
    assert "nested too deep" in first.stderr
    assert "SECOND" in second.stdout, second.stderr


@pytest.mark.attack("review L8")
@pytest.mark.parametrize(
    ("section", "value", "path"),
    [
        ("providers", [{"module": "provider-mock", "config": "x"}], "providers[0].config"),
        pytest.param(
            "providers",
            [{"module": "provider-mock"}, {"module": "provider-openai", "config": ["x"]}],
            "providers[1].config",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_malformed_bundle_is_one_error_with_the_place(
    machine: Machine, section: str, value: Any, path: str
) -> None:
    bundle = machine.user_home / "b.yaml"
    content = {"bundle": {"name": "b"}, "includes": ["default"], section: value}
    bundle.write_text(json.dumps(content), encoding="utf-8")

    result = machine.amplifier("run", "-b", str(bundle), "hi")

    _is_refused(result)
    assert path in result.stderr, result.stderr
