"""Rounds of measurement: each system measures each group of rows in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.kernel.bars import Row
from benchmarks.kernel.environments import ROOT
from benchmarks.kernel.measure import Figure
from benchmarks.kernel.report import Results

WORKER_SECONDS = 240
SLOW_ON_THE_ORIGINAL = "concurrent-10000"


def run(
    rows: tuple[Row, ...], pythons: dict[str, Path], *, budget: float, rounds: int, results: Results
) -> None:
    """Measure `rows` on every system of `pythons`, group by group, so that neighbours compare.

    The original is measured in the first round only: no bar depends on it. A single round
    leaves out the original's slowest row.
    """
    for number in range(rounds):
        for system, group, keys in _jobs(rows, list(pythons), brief=rounds == 1):
            if number and system == "original":
                continue
            start = time.perf_counter()
            outcomes = _measure(pythons[system], system, group, keys, budget)
            if system == "original" and all("error" in each for each in outcomes.values()):
                # Its interpreter now and then aborts on its way out; the figures are then lost.
                outcomes = _measure(pythons[system], system, group, keys, budget)
            _store(system, outcomes, results)
            took = time.perf_counter() - start
            progress = f"round {number + 1}/{rounds}  {group:17} {system:9} {took:5.1f} s"
            print(progress, file=sys.stderr, flush=True)


def _jobs(
    rows: tuple[Row, ...], systems: list[str], *, brief: bool
) -> Iterator[tuple[str, str, list[str]]]:
    for group in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == group]
        for system in systems:
            if brief and system == "original" and group == SLOW_ON_THE_ORIGINAL:
                continue
            keys = list(dict.fromkeys(filter(None, (_key(system, row) for row in members))))
            if keys:
                yield system, group, keys


def _key(system: str, row: Row) -> str | None:
    if system == "bare":
        return row.reference or row.key
    return row.key if system == "ours" else row.original


def _measure(python: Path, system: str, group: str, keys: list[str], budget: float) -> Any:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONPATH", None)
    command = [str(python), "-m", "benchmarks.kernel.worker", system, group, ",".join(keys)]
    try:
        done = subprocess.run(
            [*command, str(budget)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WORKER_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return {key: {"error": f"took over {WORKER_SECONDS} s"} for key in keys}
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or [f"exit {error.returncode}"])[-1]
        return {key: {"error": reason} for key in keys}
    return json.loads(done.stdout)


def _store(system: str, outcomes: dict[str, dict[str, Any]], results: Results) -> None:
    for key, outcome in outcomes.items():
        if "error" in outcome:
            results.fail(system, key, outcome["error"])
        else:
            results.add(system, key, Figure(**outcome))
