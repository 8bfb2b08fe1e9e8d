"""The command: measure, print the figures, fail when the sandbox misses its bar."""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from amplifier_sandbox.processes import toolchains
from amplifier_sandbox.processes.control_groups import ControlGroups
from amplifier_sandbox.processes.private_home import prepared_home
from amplifier_sandbox.processes.program import Program
from amplifier_sandbox.processes.sandbox import Sandbox
from amplifier_sandbox.processes.toolchains import NO_TOOLCHAINS, Toolchains

RUNS = 40
BAR = 10.0
"""Milliseconds that the strongest sandbox may add to the start of a shell, at the median."""

SHELL = ["/bin/sh", "-c", "true"]
LONG_LIVED = {
    "sleep": "sleep 1d",
    "daemon": "(setsid sleep 1d &); sleep 1d",
    "fork bomb": "bomb(){ bomb|bomb& }; bomb & while :; do :; done",
}


def milliseconds(start: Callable[[], object]) -> list[float]:
    """Time `start` again and again; the first run only warms up."""
    times: list[float] = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        start()
        times.append((time.perf_counter() - started) * 1000)
    return times[1:]


def start_bare() -> None:
    """Run the shell as it is."""
    subprocess.run(SHELL, check=True, stdin=subprocess.DEVNULL, env={})


def find_all(workspace: str) -> Toolchains:
    """Search the toolchains of the user who runs this, as the first command of a session does."""
    toolchains.forget_toolchains()
    return toolchains.find_toolchains([Path(workspace)])


def start_in(sandbox: Sandbox, workspace: str, home: Path | None = None) -> None:
    """Run the shell in `sandbox`, set up and cleared away; with a home, as `bash` runs commands."""
    protected = (".git", ".amplifier") if sandbox.level == "bubblewrap" else ()
    found = NO_TOOLCHAINS if home is None else toolchains.find_toolchains([Path(workspace)])
    with sandbox.command(
        SHELL, workspace=workspace, protected=protected, toolchains=found, home=home
    ) as launch:
        subprocess.run(
            launch.argv,
            check=True,
            stdin=subprocess.DEVNULL,
            env=launch.env,
            cwd=launch.cwd,
            pass_fds=launch.pass_fds,
        )


async def milliseconds_to_end(sandbox: Sandbox, workspace: str, script: str) -> float:
    """Return how long it takes until nothing is left of a running program."""
    with sandbox.command(["/bin/bash", "-c", script], workspace=workspace) as launch:
        program = Program(launch, lambda stream, data: None)
        await asyncio.sleep(0.3)
        started = time.perf_counter()
        await program.end()
        return (time.perf_counter() - started) * 1000


def show(name: str, times: list[float]) -> float:
    """Print the median and the least, and return the median."""
    median = statistics.median(times)
    print(f"{name:<24} {median:6.1f} ms (least {min(times):.1f})")
    return median


def judge(sandbox: Sandbox, cost: float) -> str:
    """Say whether the bar is met; a busy machine makes namespaces wait, so it only acquits."""
    if sandbox.level == "bubblewrap" and cost <= BAR:
        return "ok"
    assert sys.platform != "win32", "Windows does not tell the load of the machine"
    is_busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    return "not judged, the machine is busy" if is_busy else "MISSED"


def main() -> int:
    """Run the benchmark; the exit code is the verdict."""
    if sys.platform == "win32":
        sys.exit("Windows has no sandbox to measure; run the benchmark in WSL.")
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    found = milliseconds(Sandbox.detect)
    sandbox, fallback = Sandbox.detect(), Sandbox.detect(folders=())
    with tempfile.TemporaryDirectory() as workspace, tempfile.TemporaryDirectory() as elsewhere:
        bare = show("bare shell", milliseconds(start_bare))
        home = prepared_home(Path(elsewhere, "home"))
        show(sandbox.level, milliseconds(lambda: start_in(sandbox, workspace)))
        show("finding toolchains", milliseconds(lambda: find_all(workspace)))
        times = milliseconds(lambda: start_in(sandbox, workspace, home))
        cost = show("... with toolchains", times) - bare
        # Entering a group waits for every processor once, which a busy machine makes long.
        ungrouped = replace(sandbox, groups=ControlGroups())
        show("... without groups", milliseconds(lambda: start_in(ungrouped, workspace)))
        show(fallback.level, milliseconds(lambda: start_in(fallback, workspace)))
        show("finding the sandbox", found)
        for name, script in LONG_LIVED.items():
            taken = asyncio.run(milliseconds_to_end(sandbox, workspace, script))
            print(f"ending a {name:<15} {taken:6.1f} ms")
    verdict = judge(sandbox, cost)
    print(f"over bare: {cost:.1f} ms, bar {BAR:g} ms: {verdict}")
    return 1 if verdict == "MISSED" else 0


if __name__ == "__main__":
    sys.exit(main())
