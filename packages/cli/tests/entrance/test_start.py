"""How long a start takes, side by side with the interpreter's own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROUNDS = 15
BARE = ["-c", "print()"]


def seconds_to_first_byte(
    command: list[str], environment: dict[str, str], cwd: Path, stderr: int
) -> float:
    """Return how long the first byte of output takes; that of stderr counts if it goes there.

    The time in which the process waited for a core of a busy machine is left out.
    """
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        bufsize=0,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        taken = time.perf_counter() - started
        # nanoseconds on a core, nanoseconds in the queue for one, turns
        _, queued, _ = Path(f"/proc/{process.pid}/schedstat").read_text("ascii").split()
        process.stdout.read()
        assert process.wait(timeout=60) == 0
    return taken - int(queued) / 1e9


@pytest.mark.parametrize(
    ("arguments", "most_times", "stderr"),
    [
        pytest.param(["--version"], 6, subprocess.STDOUT, id="version"),
        pytest.param(["session", "list", "--all"], 8, subprocess.STDOUT, id="list"),
        pytest.param(
            ["run", "what is in this folder?"],
            20,
            subprocess.STDOUT,
            marks=pytest.mark.slow,
            id="first byte of run",
        ),
        pytest.param(
            ["run", "what is in this folder?"],
            55,
            subprocess.DEVNULL,
            marks=pytest.mark.slow,
            id="first byte of the answer",
        ),
    ],
)
def test_the_first_byte_comes_soon_after_that_of_the_interpreter(
    environment: dict[str, str],
    project: Path,
    arguments: list[str],
    most_times: float,
    stderr: int,
) -> None:
    """Each start is measured against one of the bare interpreter just before it.

    So neither a slow machine nor one whose speed changes counts for or against the program.
    """
    if sys.platform != "linux":
        pytest.skip("only Linux says how long a process waited for a core")
    command = ["-m", "amplifier_cli", *arguments]
    times: list[float] = []
    for _ in range(1 + ROUNDS):
        bare = seconds_to_first_byte(BARE, environment, project, stderr)
        ours = seconds_to_first_byte(command, environment, project, stderr)
        times.append((ours - bare) / bare)

    # The first round compiles what was never run before.
    assert statistics.median(times[1:]) <= most_times
