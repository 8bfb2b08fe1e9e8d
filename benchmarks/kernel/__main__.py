"""The command: build the environments, measure every system, print the table."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.kernel import environments, report, runner
from benchmarks.kernel.bars import select

if sys.platform == "win32":
    raise SystemExit("Windows does not tell the load of the machine; run the benchmark in WSL.")

BUDGET, ROUNDS = 1.0, 3
QUICK_BUDGET, QUICK_ROUNDS = 0.3, 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel", description=__doc__)
    parser.add_argument("--rows", default="", help="comma-separated rows, such as emit,turn")
    parser.add_argument("--budget", type=float, help="seconds per row and round")
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every figure here")
    parser.add_argument("--no-original", action="store_true", help="leave the original out")
    return parser


def _interpreters(results: report.Results, *, original: bool) -> dict[str, Path]:
    """The interpreter of every system; bare Python runs in ours, without importing us."""
    builders: dict[str, Callable[[], Path]] = {"ours": environments.prepare_ours}
    if original:
        builders["original"] = environments.prepare_original
    found: dict[str, Path] = {}
    for system, build in builders.items():
        try:
            found[system] = build()
        except environments.SetupError as error:
            results.fail(system, "all rows", str(error))
    return {"bare": found.get("ours", Path(sys.executable)), **found}


def main() -> int:
    """Run the benchmark; the exit code is the verdict."""
    parser = _parser()
    options = parser.parse_args()
    try:
        rows = select(options.rows)
    except ValueError as error:
        parser.error(str(error))
    results = report.Results()
    pythons = _interpreters(results, original=not options.no_original)
    budget = options.budget or (QUICK_BUDGET if options.quick else BUDGET)
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    runner.run(rows, pythons, budget=budget, rounds=rounds, results=results)
    if options.json:
        report.write_json(options.json, rows, results)
    load = os.getloadavg()[0]
    print(f"\nPython {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}\n")
    print(report.render(rows, results))
    return report.exit_code(rows, results)


if __name__ == "__main__":
    sys.exit(main())
