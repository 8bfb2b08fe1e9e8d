"""The command: measure the sides in turn, print the ratios, fail when the bar is missed."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from amplifier_runtime.database.local_postgres import LocalPostgres

if sys.platform == "win32":
    raise SystemExit("Windows does not tell the load of the machine; run the benchmark in WSL.")

BAR = 1.5
"""How many times as long as bare DBOS steps with the same writes a durable turn may take."""
TURNS, CONCURRENCY, ROUNDS = 200, 8, 5
SIDES = ("bare", "durable", "in_process")


def main() -> int:
    """Run the benchmark; the exit code is the verdict."""
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    print(f"turns of one model call and two unsafe tools, {CONCURRENCY} at a time, ms per turn")
    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(1_000_000))
        ratio = compare("SQLite", lambda: f"sqlite:///{Path(folder) / f'{next(numbers)}.sqlite'}")
        worst = ratio
        with LocalPostgres() as server:
            ratio = compare("PostgreSQL", lambda: server.create_database(f"b{next(numbers)}"))
            worst = max(worst, ratio)
    verdict = "ok" if worst <= BAR else "MISSED"
    print(f"durable over bare: {worst:.2f}, bar {BAR:g}: {verdict}")
    return 0 if verdict == "ok" else 1


def compare(name: str, new_url: Callable[[], str]) -> float:
    """Print the medians of all sides on fresh databases; return durable over bare."""
    rounds = [{side: run(side, new_url()) for side in SIDES} for _ in range(ROUNDS)]
    for side in SIDES:
        wall = statistics.median(each[side]["wall"] for each in rounds)
        cpu = statistics.median(each[side]["cpu"] for each in rounds)
        print(f"{name:<11} {side:<11} {wall:7.2f} wall {cpu:7.2f} cpu")
    ratios = sorted(each["durable"]["wall"] / each["bare"]["wall"] for each in rounds)
    cpu = statistics.median(each["durable"]["cpu"] / each["bare"]["cpu"] for each in rounds)
    print(f"{name:<11} durable/bare {', '.join(f'{ratio:.2f}' for ratio in ratios)}; cpu {cpu:.2f}")
    return statistics.median(ratios)


def run(side: str, url: str) -> dict[str, float]:
    """Measure one side in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.runtime.side", side, url]
    done = subprocess.run(
        [*command, str(TURNS), str(CONCURRENCY)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
