"""The examples of the library print what their README shows; the service is used over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import httpx
import pytest

from docs.documents import ROOT
from docs.terminal_blocks import Command, commands_of

README = ROOT / "examples" / "README.md"
PROGRAMS = Path(sys.executable).parent
SECONDS = 60
# Programs that others start.
HELPERS = {"mcp_server.py", "service.py"}


def shown() -> list[Command]:
    """Return the commands of the README that run a program of the library."""
    found = commands_of(README.read_text(encoding="utf-8"))
    return [each for each in found if "python examples/agent/" in each.text]


def test_every_example_is_listed_and_its_output_is_shown() -> None:
    text = README.read_text(encoding="utf-8")
    names = {each.name for each in (ROOT / "examples" / "agent").glob("*.py")}

    assert {name for name in names if f"`{name}`" not in text} == set()
    commands = "\n".join(each.text for each in shown())
    assert {name for name in names - HELPERS if name not in commands} == set()


@pytest.mark.parametrize("command", shown(), ids=lambda each: each.text.split("agent/")[1][:16])
def test_an_example_prints_what_the_readme_shows(command: Command, tmp_path: Path) -> None:
    environment = {
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
    }

    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )

    assert done.stdout.splitlines() == command.shown, done.stderr


@contextlib.contextmanager
def serving(store: Path) -> Generator[httpx.Client]:
    """Run the service in a process of its own; it is killed at the end, not asked to stop."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = ["-m", "uvicorn", "--app-dir", "examples/agent", "service:app", "--port", str(port)]
    log = (store / "server.log").open("a")
    server = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "SUPPORT_STORE": str(store)},
        stdout=log,
        stderr=log,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS) as client:
            _wait_for(client, store / "server.log")
            yield client
    finally:
        server.kill()
        server.wait()
        log.close()


def _wait_for(client: httpx.Client, log: Path) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(httpx.TransportError):
            if client.get("/openapi.json").is_success:
                return
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def read_events(response: httpx.Response) -> Iterator[tuple[str, object]]:
    """Yield the events of a stream as they arrive."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def ask(client: httpx.Client, path: str, prompt: str) -> list[tuple[str, object]]:
    with client.stream("POST", path, json={"prompt": prompt}) as response:
        return list(read_events(response))


def said_by_user(client: httpx.Client, path: str) -> list[str]:
    messages = client.get(path).raise_for_status().json()
    return [each["content"] for each in messages if each["role"] == "user"]


def test_the_service_streams_tokens_as_events(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        events = ask(client, "/ann/first", "Please look up order 7.")

    assert events[:2] == [("tool", "look_up"), ("result", {"order": 7, "customer": "ann"})]
    tokens = [text for name, text in events if name == "token"]
    assert len(tokens) > 3
    assert "".join(map(str, tokens)).startswith("[mock] I called look_up and got:")
    assert events[-1] == ("done", "completed")


def test_a_conversation_of_the_service_survives_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        ask(client, "/ann/first", "Please look up order 7.")
    with serving(tmp_path) as client:
        ask(client, "/ann/first", "And look up order 8.")
        ask(client, "/bob/first", "Please look up order 9.")

        assert said_by_user(client, "/ann/first") == [
            "Please look up order 7.",
            "And look up order 8.",
        ]
        assert said_by_user(client, "/bob/first") == ["Please look up order 9."]


def test_a_client_that_disconnects_cancels_its_turn(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        with client.stream("POST", "/ann/first", json={"prompt": "Please track order 7."}) as got:
            assert next(read_events(got)) == ("tool", "track")
        # The writer of the conversation is busy until the turn has ended.
        until = time.monotonic() + SECONDS
        while (answer := client.get("/ann/first")).status_code == 409:
            assert time.monotonic() < until
            time.sleep(0.05)
        messages = answer.raise_for_status().json()
        events = ask(client, "/ann/first", "Please look up order 8.")

    assert [each["role"] for each in messages] == ["user", "assistant", "tool"]
    assert "on its way" not in messages[-1]["content"]
    assert events[-1] == ("done", "completed")
    (log,) = tmp_path.glob("projects/*/sessions/ann-first/log.jsonl")
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    ends = [each["data"]["stop_reason"] for each in records if each["kind"] == "turn.ended"]
    assert ends == ["cancelled", "completed"]


def test_the_budget_of_a_user_ends_and_is_not_reset_by_a_restart(tmp_path: Path) -> None:
    prompt = "Please look up order 7."
    with serving(tmp_path) as client:
        first = [ask(client, f"/ann/c{number}", prompt)[-1] for number in range(4)]
    with serving(tmp_path) as client:
        later = [ask(client, f"/ann/d{number}", prompt)[-1] for number in range(2)]
        other = ask(client, "/bob/c1", prompt)[-1]

    # Two model calls for each answer, ten for a user.
    assert first == [("done", "completed")] * 4
    assert later == [("done", "completed"), ("done", "budget")]
    assert other == ("done", "completed")
