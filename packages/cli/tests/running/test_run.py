"""`amplifier run`: the answer and nothing else on stdout, exit codes, pipes, and what it says."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

if sys.platform != "win32":
    import pty

Command = Callable[..., "subprocess.CompletedProcess[str]"]

ECHO = "providers:\n- module: provider-mock\n  config: {mode: echo, stream: true}\n"


def use(home: Path, provider: str) -> None:
    """Write the user's settings."""
    home.mkdir(exist_ok=True)
    (home / "settings.yaml").write_text(provider, encoding="utf-8")


def scripted(home: Path, script: list[Any], **config: Any) -> None:
    """Have the mock provider play a script."""
    entry = {"module": "provider-mock", "config": {"script": script, **config}}
    use(home, json.dumps({"providers": [entry]}))


def test_a_provider_without_its_key_is_an_error_that_names_the_key(amplifier: Command) -> None:
    done = amplifier("run", "-q", "-p", "anthropic", "hello")

    assert done.returncode == 5
    assert done.stderr.splitlines()[-3:] == [
        "error  No model can answer: no provider was mounted.",
        "why    provider-anthropic: set ANTHROPIC_API_KEY, or `api_key`.",
        "next   amplifier init",
    ]
    assert "Traceback" not in done.stderr


def test_without_a_key_the_mock_answers_and_it_says_so(amplifier: Command, project: Path) -> None:
    (project / "notes.txt").write_text("x", encoding="utf-8")

    done = amplifier("run", "what is in this folder?")

    assert done.returncode == 0, done.stderr
    assert "notes.txt" in done.stdout
    assert done.stderr.startswith("No model configured; using the mock model.")
    assert "amplifier init" in done.stderr


def test_stdout_has_the_answer_alone(amplifier: Command, home: Path) -> None:
    scripted(home, ["Four."])

    done = amplifier("run", "What is 2 + 2?")

    assert done.stdout == "Four.\n"
    assert "continue: amplifier continue" in done.stderr
    assert amplifier("run", "--quiet", "again").stderr == ""


@pytest.mark.parametrize("arguments", [("-",), ()])
def test_what_is_piped_in_can_be_the_prompt(
    amplifier: Command, home: Path, arguments: tuple[str, ...]
) -> None:
    use(home, ECHO)

    assert "from a pipe" in amplifier("run", *arguments, stdin="from a pipe").stdout


def test_what_is_piped_in_is_added_to_the_prompt(amplifier: Command, home: Path) -> None:
    use(home, ECHO)

    answer = amplifier("run", "Summarize:", stdin="a long story").stdout

    assert "Summarize:" in answer
    assert "a long story" in answer


def test_no_prompt_at_all_is_wrong_usage(amplifier: Command) -> None:
    done = amplifier("run")

    assert done.returncode == 2
    assert 'next   amplifier run "what is in this folder?"' in done.stderr


def test_json_tells_everything_about_the_turn(amplifier: Command, home: Path) -> None:
    script: list[Any] = [
        {"tool_calls": [{"name": "list_directory", "arguments": {}}]},
        {"text": "Empty.", "usage": {"input_tokens": 10, "output_tokens": 2, "cost_usd": "0.01"}},
    ]
    scripted(home, script)

    told = json.loads(amplifier("run", "--json", "look").stdout)

    assert told["answer"] == "Empty."
    assert told["stop_reason"] == "completed"
    assert told["cost_usd"] == "0.01"
    assert told["usage"]["output_tokens"] > 2
    assert [each["name"] for each in told["tools"]] == ["list_directory"]
    assert told["tools"][0]["success"] is True
    assert told["provider"] == "mock"
    assert len(told["session_id"]) == 36


def test_a_call_that_fails_is_shown_with_its_reason(amplifier: Command, home: Path) -> None:
    calls = [
        {"name": "read_file", "arguments": {"file_path": "none.txt"}},
        {"name": "bash", "arguments": {"command": "echo why >&2; exit 3"}},
    ]
    scripted(home, [{"tool_calls": [each]} for each in calls] + ["Failed."])

    lines = amplifier("run", "--mode", "auto", "fail twice").stderr.splitlines()

    marked = [number for number, line in enumerate(lines) if line.startswith("✗ ")]
    assert len(marked) == 2
    assert lines[marked[0] + 1].startswith("  There is no such file or folder.")
    assert lines[marked[1] + 1] == "  The command ended with exit code 3."


def test_an_answer_that_has_to_fit_a_schema_is_a_result(
    amplifier: Command, home: Path, project: Path
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    (project / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
    scripted(home, ['{"n": 4}', "four", "still four"])

    good = amplifier("run", "--json", "--output-schema", "schema.json", "2 + 2")
    assert json.loads(good.stdout)["result"] == {"n": 4}
    scripted(home, ["four", "still four"])
    bad = amplifier("run", "--output-schema", "schema.json", "2 + 2")
    assert bad.returncode == 1
    assert "invalid_output" in bad.stderr


def test_a_budget_that_is_used_up_has_its_own_exit_code(amplifier: Command, home: Path) -> None:
    config = "{mode: echo, max_output_tokens: 4096}"
    prices = "{mock: {input: 1000, output: 1000}}"
    hook = f"{{module: hooks-budget, config: {{prices: {prices}}}}}"
    provider = f"{{module: provider-mock, config: {config}}}"
    use(home, f"providers: [{provider}]\nmodules: {{hooks: [{hook}]}}\n")

    done = amplifier("run", "--budget", "0.0001", "hello")

    assert done.returncode == 4, done.stderr
    assert "budget" in done.stderr
    assert "No further model call was made" in done.stdout


def test_the_mock_is_free_under_any_budget(amplifier: Command) -> None:
    assert amplifier("run", "--budget", "0.50", "hello", "--no-tools").returncode == 0


@pytest.mark.parametrize("amount", ["lots", "-1", "0"])
def test_a_budget_that_is_no_amount_is_wrong_usage(amplifier: Command, amount: str) -> None:
    assert amplifier("run", "--budget", amount, "hello").returncode == 2


@pytest.mark.parametrize(
    ("error", "next_step"),
    [
        ("AuthenticationError", "amplifier init"),
        ("NetworkError", "amplifier init"),
        ("NotFoundError", "amplifier provider models"),
        ("ContextLengthError", "amplifier provider models"),
        ("StreamError", "amplifier provider test"),
    ],
)
def test_a_provider_that_fails_has_its_own_exit_code_and_next_step(
    amplifier: Command, home: Path, error: str, next_step: str
) -> None:
    scripted(home, [{"error": error}], after_script="repeat")

    plain, as_json = amplifier("run", "hello"), amplifier("run", "--json", "hello")

    assert (plain.returncode, as_json.returncode) == (5, 5)
    assert f"next   {next_step}" in plain.stderr
    assert f"{error}(" not in plain.stderr
    assert "Traceback" not in plain.stderr
    assert json.loads(as_json.stdout)["error"]["next"] == next_step


def test_a_session_goes_on(amplifier: Command, home: Path) -> None:
    scripted(home, ["One."])
    first = json.loads(amplifier("run", "--json", "first").stdout)
    scripted(home, ["Two."])

    again = json.loads(amplifier("run", "--json", "--resume", "last", "second").stdout)

    assert again["session_id"] == first["session_id"]
    shown = amplifier("session", "show").stdout
    assert shown.index("first") < shown.index("One.") < shown.index("second") < shown.index("Two.")


def test_a_module_of_a_folder_is_used_at_once(amplifier: Command, home: Path) -> None:
    amplifier("module", "new", "tool-weather")
    call = {"name": "weather", "arguments": {"name": "Ada"}}
    scripted(home, [{"tool_calls": [call]}, "Greeted."])

    done = amplifier("run", "--json", "--module", "./tool-weather", "greet Ada")

    assert json.loads(done.stdout)["tools"][0]["success"] is True, done.stderr
    invoked = amplifier("tool", "invoke", "--module", "./tool-weather", "weather", "name=Ada")
    assert invoked.stdout == "Hello, Ada.\n"


def test_nothing_of_a_project_that_is_not_trusted_is_used(
    amplifier: Command, home: Path, project: Path
) -> None:
    (project / ".amplifier").mkdir()
    entry = {"module": "provider-mock", "config": {"script": ["from the project"]}}
    text = json.dumps({"providers": [entry]})
    (project / ".amplifier" / "settings.yaml").write_text(text, encoding="utf-8")

    assert "from the project" not in amplifier("run", "hello", "--no-tools").stdout
    assert amplifier("trust", "grant").returncode == 2
    assert amplifier("trust", "grant", "--yes").returncode == 0
    assert amplifier("run", "hello").stdout == "from the project\n"
    assert amplifier("trust", "revoke").returncode == 0
    assert "from the project" not in amplifier("run", "hello", "--no-tools").stdout


class _Server(BaseHTTPRequestHandler):
    """Answers as a server does that speaks Chat Completions."""

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "from the local server"}
        choice = {"index": 0, "finish_reason": "stop", "message": message, "delta": message}
        usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
        body = {"id": "1", "model": "tiny", "created": 1, "choices": [choice], "usage": usage}
        chunk = json.dumps({**body, "object": "chat.completion.chunk"})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {chunk}\n\ndata: [DONE]\n\n".encode())

    def _send(self, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """A model server on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/v1"
        running.shutdown()


def test_with_an_address_the_server_there_answers(amplifier: Command, server: str) -> None:
    done = amplifier("run", "hello", "--no-tools", env={"OPENAI_BASE_URL": server})

    assert done.stdout == "from the local server\n", done.stderr
    assert "mock" not in done.stderr
    assert server in done.stderr


def test_init_tries_the_provider_with_one_question(
    amplifier: Command, server: str, home: Path
) -> None:
    done = amplifier("init", "--provider", "chat-completions", env={"OPENAI_BASE_URL": server})

    assert done.returncode == 0, done.stderr
    assert "from the local server" in done.stdout
    assert "3 tokens in, 4 out" in done.stderr
    assert amplifier("run", "hello", "--no-tools").stdout == "from the local server\n"


def test_the_doctor_asks_the_provider_that_a_prompt_would_go_to(
    amplifier: Command, server: str
) -> None:
    up = {"OPENAI_BASE_URL": server}
    # Nothing listens on port 9 of this machine.
    down = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}

    assert "answers" in amplifier("doctor", env=up).stdout
    for command in (("doctor",), ("run", "hello")):
        done = amplifier(*command, env=down)
        told = " ".join((done.stdout + done.stderr).split())
        assert done.returncode != 0
        assert "The server is down, or its address is wrong." in told
        assert "amplifier init" in told


@pytest.mark.parametrize("command", [("doctor",), ("run", "hello")])
def test_the_doctor_fails_without_a_key_as_a_prompt_does(
    amplifier: Command, home: Path, command: tuple[str, ...]
) -> None:
    use(home, json.dumps({"providers": [{"module": "provider-anthropic"}]}))

    done = amplifier(*command)

    assert done.returncode != 0
    assert "set ANTHROPIC_API_KEY" in " ".join((done.stdout + done.stderr).split())


def test_an_interrupt_stops_the_turn_and_keeps_the_session(
    environment: dict[str, str], home: Path, project: Path, amplifier: Command
) -> None:
    scripted(home, [{"text": "never", "delay_seconds": 60}])
    process = subprocess.Popen(
        [sys.executable, "-m", "amplifier_cli", "run", "wait for me"],
        env=environment,
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for_record(home, '"kind":"model.call"')
    process.send_signal(signal.SIGINT)
    answer, told = process.communicate(timeout=120)

    assert process.returncode == 130, told
    assert answer == ""
    assert "Traceback" not in told
    assert "wait for me" in amplifier("session", "show").stdout


def _wait_for_record(home: Path, text: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if any(text in log.read_text("utf-8") for log in home.rglob("log.jsonl")):
            return
        select.select([], [], [], 0.02)
    raise AssertionError(f"no record with {text} was written")


def test_at_a_terminal_the_person_is_asked_before_a_tool_acts(
    environment: dict[str, str], home: Path, project: Path
) -> None:
    """The user answers 1, which allows the call once."""
    if sys.platform == "win32":
        pytest.skip("Python opens no terminals on Windows")
    call = {"name": "write_file", "arguments": {"file_path": "made.txt", "content": "here"}}
    scripted(home, [{"tool_calls": [call]}, "Done."])
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "amplifier_cli", "run", "write it"],
        env=environment,
        cwd=project,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
    )
    os.close(slave)
    screen = _read_until(master, "\n> ")
    os.write(master, b"1\n")
    answer, _ = process.communicate(timeout=120)
    os.close(master)

    assert "Allow a new file made" in screen
    assert "made.txt" in screen
    assert answer == "Done.\n"
    assert (project / "made.txt").read_text("utf-8") == "here"


def _read_until(descriptor: int, text: str) -> str:
    seen, deadline = "", time.monotonic() + 30
    while text not in seen.replace("\r", "") and time.monotonic() < deadline:
        if select.select([descriptor], [], [], 0.1)[0]:
            seen += os.read(descriptor, 65_536).decode("utf-8", "replace")
    return seen
