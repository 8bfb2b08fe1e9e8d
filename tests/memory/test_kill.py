"""Whatever a process had acknowledged when it was killed is there, and the file opens."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from amplifier_module_contexts.context_persistent.message_log import MessageLog
from amplifier_sandbox.platforms.signals import KILL

PROGRAM = Path(__file__).with_name("appending_program.py")
# A file is used for this many processes, each of which goes on where the last one was killed.
PROCESSES_PER_FILE = 20


class Appender:
    """A process that appends to conversations, in processes that can be killed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._input, self._output = process.stdin, process.stdout

    def kill_while_it_appends(self, path: Path, chance: random.Random) -> list[int]:
        """Let it append to `path`, kill it at some instant, and return what it acknowledged."""
        self._input.write(f"{path}\n")
        self._input.flush()
        pid = 0
        said: list[str] = []
        wanted = chance.randrange(12)
        while not pid or len(said) < wanted:
            word, _, number = self._output.readline().strip().partition(" ")
            if word == "pid":
                pid = int(number)
            else:
                said.append(word)
        # Not to wait for anything: the instant is to be any instant.
        time.sleep(chance.random() * 0.003)
        os.kill(pid, KILL)
        while (word := self._output.readline().strip()) != "dead":
            said.append(word)
        return [int(word) for word in said if word != "open"]


@pytest.fixture
def appender() -> Iterator[Appender]:
    if sys.platform == "win32":
        pytest.skip("the program that is killed forks, which Windows cannot")
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    with process:
        yield Appender(process)
        assert process.stdin
        process.stdin.close()
        process.wait(timeout=120)


def whole(path: Path, content: str) -> str:
    """Return the text of a message, from its blob when it was put aside."""
    if not content.startswith("["):
        return content
    handle = content[1:].partition(":")[0]
    return (path.with_name(f"{path.name}.blobs") / handle).read_text(encoding="utf-8")


def kill(appender: Appender, folder: Path, times: int, chance: random.Random) -> int:
    """Kill it this often; return how many messages had been acknowledged."""
    known, acknowledged = 0, 0
    for number in range(times):
        path = folder / f"{number // PROCESSES_PER_FILE}.jsonl"
        known = known if path.exists() else 0
        numbers = appender.kill_while_it_appends(path, chance)
        log = MessageLog.open(path, "s")
        log.close()
        found = [each["content"] for each in log.messages]

        assert numbers == list(range(known, known + len(numbers)))
        assert len(found) - known - len(numbers) in (0, 1), "one may have been under way"
        for expected, content in enumerate(found):
            assert whole(path, content).startswith(f"{expected} ")
        assert log.recovery.damaged_lines == log.recovery.fenced_records == 0
        acknowledged += len(numbers)
        known = len(found)
    return acknowledged


def test_what_was_acknowledged_survives_a_kill(appender: Appender, tmp_path: Path) -> None:
    assert kill(appender, tmp_path, 10, random.Random(1)) > 10


@pytest.mark.slow
def test_what_was_acknowledged_survives_200_kills(appender: Appender, tmp_path: Path) -> None:
    assert kill(appender, tmp_path, 200, random.Random(2)) > 500
