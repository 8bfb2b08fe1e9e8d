"""Two processes on one session, each in a terminal of its own, and the user in between."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from end_to_end.chat_runs import TmuxScreen

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Open = Callable[..., AbstractContextManager[TmuxScreen]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


@pytest.fixture
def terminal(environment: dict[str, str], home: Path, project: Path) -> Open:
    """Start `amplifier` in a terminal; the mock answers every prompt with `One.`."""
    home.mkdir()
    config = {"script": ["One."], "after_script": "repeat"}
    entry = {"module": "provider-mock", "config": config}
    (home / "settings.yaml").write_text(json.dumps({"providers": [entry]}), encoding="utf-8")
    kept = ("AMPLIFIER_HOME", "HOME", "PATH", "PYTHONPYCACHEPREFIX")

    @contextmanager
    def start(*arguments: str) -> Generator[TmuxScreen]:
        with TmuxScreen(
            [sys.executable, "-m", "amplifier_cli", *arguments],
            folder=project,
            environment={name: environment[name] for name in kept},
            columns=110,
        ) as screen:
            yield screen

    return start


def say(screen: TmuxScreen, text: str) -> None:
    """Type a line and press Enter."""
    screen.type(text)
    screen.press("Enter")


def prompts(home: Path) -> dict[str, list[str]]:
    """Return the prompts in every log, by its session's folder."""
    found: dict[str, list[str]] = {}
    for log in home.rglob("log.jsonl"):
        records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        said = [each["data"]["text"] for each in records if each["kind"] == "prompt"]
        found[log.parent.name] = said
    return found


def test_the_second_is_offered_three_ways_and_after_a_take_over_the_first_writes_nothing(
    terminal: Open, home: Path
) -> None:
    with terminal("chat") as first:
        first.wait_for("ready")
        say(first, "from the first")
        first.wait_for("One.", "ready")
        (session,) = prompts(home)

        with terminal("run", "--resume", session, "only to look") as second:
            asked = second.wait_for(
                "is open in process", "What now (watch, take-over, fork)", "[watch]:"
            )
            assert str(first.pid) in asked
            second.press("Enter")
            second.wait_for("Watching", "from the first")
            say(first, "while the other looks")
            second.wait_for("while the other looks")
            second.press("C-c")
            second.wait_for_end()

        with terminal("run", "--resume", session, "in a copy") as second:
            second.wait_for("What now", "[watch]:")
            say(second, "fork")
            second.wait_for("continues in a copy", "One.")
            second.wait_for_end()

        with terminal("run", "--resume", session, "from the second") as second:
            second.wait_for("What now", "[watch]:")
            say(second, "take-over")
            second.wait_for("One.")
            second.wait_for_end()

        say(first, "too late")
        first.wait_for("has taken it over")

    there = prompts(home)
    assert there.pop(session) == ["from the first", "while the other looks", "from the second"]
    assert list(there.values()) == [["from the first", "while the other looks", "in a copy"]]
