"""The command: measure each start, print it beside its bar, fail when one misses it.

CPU time and not wall time, and the fastest of several rounds: what else the machine does only adds.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

if sys.platform != "linux":
    raise SystemExit("Only Linux has /proc, which tells the CPU of a chat; on Windows, use WSL.")
else:
    import pty

ROUNDS = 15
BARS = {"--version": 100, "chat to prompt": 400, "run to exit": 450}
"""Milliseconds of CPU over those of the bare interpreter."""

_OURS = [sys.executable, "-m", "amplifier_cli"]
# What the chat draws when it waits for a prompt.
_READY = b"ready"
_MOST_SECONDS = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a user without keys, whose compiled files are kept."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    compiled = {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    return {**kept, **compiled, "HOME": str(folder), "TERM": "xterm-256color"}


def cpu_to_exit(command: list[str], folder: Path) -> float:
    """Return the milliseconds of CPU that a command and its children use."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment_of(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000


def cpu_to_prompt(folder: Path) -> float:
    """Return the milliseconds of CPU that a chat uses until it waits for a prompt."""
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        [*_OURS, "chat"],
        cwd=folder,
        env=environment_of(folder),
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        start_new_session=True,
    )
    os.close(its_end)
    try:
        _read_until_ready(terminal)
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        # utime and stime, the 14th and 15th field of all.
        return (int(fields[11]) + int(fields[12])) / _TICKS * 1000
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _read_until_ready(terminal: int) -> None:
    until = time.monotonic() + _MOST_SECONDS
    seen = b""
    while _READY not in seen:
        if time.monotonic() > until:
            raise SystemExit("the chat did not come to its prompt")
        new = os.read(terminal, 65_536)
        # A terminal answers when it is asked where its cursor is.
        if b"\x1b[6n" in new:
            os.write(terminal, b"\x1b[1;1R")
        seen += new


def main() -> int:
    """Run the benchmark; the exit code is the verdict."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts: dict[str, Callable[[], float]] = {
            "bare": lambda: cpu_to_exit([sys.executable, "-c", "pass"], folder),
            "--version": lambda: cpu_to_exit([*_OURS, "--version"], folder),
            "chat to prompt": lambda: cpu_to_prompt(folder),
            "run to exit": lambda: cpu_to_exit([*_OURS, "run", "hi"], folder),
        }
        # The first round compiles what was never run before.
        rounds = [{what: start() for what, start in starts.items()} for _ in range(ROUNDS + 1)][1:]
    best = {what: min(each[what] for each in rounds) for what in starts}
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    print(f"bare interpreter: {best['bare']:.0f} ms of CPU, the fastest of {ROUNDS}")
    missed = 0
    for what, bar in BARS.items():
        over = best[what] - best["bare"]
        verdict = "ok" if over <= bar else "MISSED"
        missed += over > bar
        print(f"{what:14}  {over:4.0f} ms over it, bar {bar} ms: {verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
