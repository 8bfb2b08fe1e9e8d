"""The examples of the library print what their README shows; the service is used over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from docs.documents import ROOT
from docs.served import SECONDS, ask, read_events, serve
from docs.terminal_blocks import Command, commands_of

README = ROOT / "examples" / "README.md"
PROGRAMS = Path(sys.executable).parent
# Programs that others start.
HELPERS = {"mcp_server.py", "service.py", "shop.py"}


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


def serving(store: Path) -> AbstractContextManager[httpx.Client]:
    """Run the example in a process of its own."""
    return serve(sys.executable, ROOT / "examples" / "agent", "service:app", store)


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
        until = time.monotonic() + SECONDS
        while len(messages := client.get("/ann/first").raise_for_status().json()) < 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        # The conversation has its writer until the turn has ended.
        while (events := ask(client, "/ann/first", "Please look up order 8."))[-1][0] == "error":
            assert time.monotonic() < until
            time.sleep(0.05)

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


@pytest.mark.slow
def test_a_browser_shows_what_the_agent_says(tmp_path: Path) -> None:
    with serve(sys.executable, ROOT / "examples" / "agent", "everywhere:app", tmp_path) as client:
        done = subprocess.run(
            [
                *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update"),
                *("--disable-sync", f"--user-data-dir={tmp_path / 'browser'}"),
                *("--virtual-time-budget=20000", "--dump-dom", str(client.base_url)),
            ],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )

    assert "<title>Done</title>" in done.stdout
    assert "(find_order) [mock] I called find_order and got: order 7 has 3 articles" in done.stdout
