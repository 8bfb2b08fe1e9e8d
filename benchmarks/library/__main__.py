"""The command: check that the programs behave alike, measure both libraries, judge the ratios.

CPU time and not wall time. The libraries take turns, and each figure is the best of its rounds:
what else the machine does only adds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.kernel.environments import ROOT, SetupError
from benchmarks.library.environments import prepare_amplifier, prepare_pydantic_ai
from benchmarks.library.statements import sizes

if sys.platform == "win32":
    raise SystemExit("Windows does not tell the load of the machine; run the benchmark in WSL.")
else:
    import resource

GOALS = {"CPU of a turn": 0.25, "memory kept of a session": 1.0, "import": 0.5}
"""The most that ours may be, as a share of the other."""
IMPORTS = {
    "amplifier": "from amplifier import Agent; Agent('mock:demo')",
    "pydantic_ai": "from pydantic_ai import Agent; Agent('test')",
}
"""The import, and an agent: what an import puts off until it is used counts too."""


def check_behaviour(python: Path) -> None:
    """Run the tests that the programs of both libraries have to pass.

    Raises:
        SystemExit: one of them fails.
    """
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "slow or not slow",
            "tests/docs/test_compare.py",
        ],
        cwd=ROOT,
        env={**os.environ, "COMPARE_PYTHON": str(python)},
        check=False,
    )
    if done.returncode:
        raise SystemExit("the programs do not behave alike: there is nothing to compare")


def import_ms(python: Path, statement: str) -> float:
    """Return the CPU of an interpreter that runs a statement and ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([python, "-I", "-c", statement], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def run_worker(python: Path, library: str, sessions: int) -> dict[str, float]:
    """Return what a worker measures."""
    done = subprocess.run(
        [python, "-m", "benchmarks.library.worker", library, str(sessions)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def measure(pythons: dict[str, Path], sessions: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the best figures of each library."""
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    for python in pythons.values():
        import_ms(python, "pass")
    for name, python in pythons.items():
        import_ms(python, IMPORTS[name])  # the first start also compiles
    for _ in range(rounds):
        for name, python in pythons.items():
            found = run_worker(python, name, sessions)
            whole, bare = import_ms(python, IMPORTS[name]), import_ms(python, "pass")
            figures[name].append({**found, "import_ms": whole - bare})
    return {
        name: {key: min(each[key] for each in found) for key in found[0]}
        for name, found in figures.items()
    }


def show_statements() -> None:
    """Print the statements of every program."""
    for program, counts in sizes().items():
        print(f"{'statements of ' + program:26}  {counts[0]:8} {counts[1]:11} {_ratio(*counts):7}")


def _ratio(ours: float, other: float) -> str:
    return f"{ours / other:.2f}x" if other > 0 else "-"


def judge(best: dict[str, dict[str, float]]) -> int:
    """Print the figures beside their goals; return how many are missed."""
    ours, other = best["amplifier"], best["pydantic_ai"]
    missed = 0
    rows = zip(GOALS.items(), ("cpu_ms", "kept_kib", "import_ms"), strict=True)
    for (what, goal), key in rows:
        is_met = ours[key] <= goal * other[key]
        missed += not is_met
        figures = f"{ours[key]:8.2f} {other[key]:11.2f} {_ratio(ours[key], other[key]):7}"
        print(f"{what:26}  {figures} goal {goal}x: {'ok' if is_met else 'MISSED'}")
    return missed


def main() -> int:
    """Run the benchmark; the exit code is the verdict."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.library", description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000, help="at the same time")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    try:
        pythons = {"amplifier": prepare_amplifier(), "pydantic_ai": prepare_pydantic_ai()}
    except SetupError as error:
        print(error, file=sys.stderr)
        return 2
    check_behaviour(pythons["pydantic_ai"])
    best = measure(pythons, options.sessions, options.rounds)
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    print(f"{options.sessions} sessions at the same time; ms of CPU, KiB, ms of CPU")
    print(f"{'':26}  amplifier pydantic-ai")
    show_statements()
    return 1 if judge(best) else 0


if __name__ == "__main__":
    sys.exit(main())
