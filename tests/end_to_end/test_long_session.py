"""A session that is longer than the model's window, with the default bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from attacks.machine import Machine
from end_to_end.model_server import ModelServer, Said

pytestmark = pytest.mark.slow

GOAL = "Make the parser accept a trailing comma."
OPEN_ITEM = "Write a test with two commas."
# About 5,000 tokens; the window of the server is 32,000.
LONG = Said(["A line of the parser. " * 1_000])


def test_the_goal_and_the_open_todos_of_a_long_session_are_kept(
    tmp_path: Path, compiled: Path
) -> None:
    machine = Machine(tmp_path, compiled)
    planned = Said(calls=[("todo", {"todos": [{"text": OPEN_ITEM}]})])
    # More than the turns need: some are summaries of what no longer fits.
    script = [planned, Said(["Planned."]), *[LONG] * 20]
    with ModelServer(script) as server:
        machine.use(server)
        assert machine.amplifier("run", "-q", GOAL).returncode == 0
        for number in range(8):
            done = machine.amplifier("run", "-q", "--resume", "last", f"Show me part {number}.")
            assert done.returncode == 0, done.stderr
        last = server.requests[-1]["messages"]
        replayed = machine.amplifier("session", "replay", "last")

    assert not any("part 0" in str(each["content"]) for each in last), "nothing was left out"
    assert any("Summary of the messages" in str(each["content"]) for each in last)
    sent = [str(each["content"]) for each in last]
    assert any(GOAL in text for text in sent)
    assert any(OPEN_ITEM in text for text in sent)
    assert replayed.returncode == 0, replayed.stdout
