"""Two processes on one conversation: one writes, the other is told, and nothing is mixed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amplifier_module_contexts.context_persistent.errors import ContextInUseError
from amplifier_module_contexts.context_persistent.message_log import MessageLog
from amplifier_sandbox.platforms.process_end import end_of

PROGRAM = Path(__file__).with_name("holding_program.py")


class Holder:
    """Another process that has the conversation open."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._input, self._output = process.stdin, process.stdout
        self.pid = process.pid
        assert self._output.readline() == "open\n"

    def add(self, text: str) -> str:
        self._input.write(f"{text}\n")
        self._input.flush()
        return self._output.readline().strip()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversation.jsonl"


@pytest.fixture
def holder(path: Path) -> Iterator[Holder]:
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    with process:
        yield Holder(process)
        process.kill()


def texts(log: MessageLog) -> list[str]:
    return [message["content"] for message in log.messages]


def test_the_second_process_is_refused_with_the_holder_s_identity(
    holder: Holder, path: Path
) -> None:
    assert holder.add("one") == "added"

    with pytest.raises(ContextInUseError, match=f"is open in process {holder.pid} on .*, since 2"):
        MessageLog.open(path, "s")

    assert holder.add("two") == "added"


def test_the_lock_of_a_killed_process_is_free(holder: Holder, path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("the end of a process cannot be watched on Windows")
    holder.add("one")
    os.kill(holder.pid, signal.SIGKILL)
    end = end_of(holder.pid)
    select.select([end], [], [])
    os.close(end)

    log = MessageLog.open(path, "s")
    log.close()

    assert texts(log) == ["one"]


def test_a_process_that_slept_through_a_takeover_writes_nothing(holder: Holder, path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows does not stop a process for a while")
    holder.add("one")
    os.kill(holder.pid, signal.SIGSTOP)
    taken_over = MessageLog.open(path, "s", takeover=True)
    taken_over.append(message={"role": "user", "content": "two"})
    os.kill(holder.pid, signal.SIGCONT)
    before = path.read_bytes()

    said = holder.add("too late")

    assert said.startswith("ContextFencedError: Nothing was written")
    assert path.read_bytes() == before
    taken_over.append(message={"role": "user", "content": "three"})
    taken_over.close()
    again = MessageLog.open(path, "s")
    again.close()
    assert texts(again) == ["one", "two", "three"]
