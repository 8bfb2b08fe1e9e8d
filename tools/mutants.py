"""Mutation testing of the kernel: change its code in every small way, and see that a test fails.

    python tools/mutants.py                      every mutant of every file below
    python tools/mutants.py --sample 300         a fixed part of them
    python tools/mutants.py --file hooks.py      one file; may be given more than once
    python tools/mutants.py --again before.json  what survived in an earlier run
    python tools/mutants.py --out after.json     write the result down

A mutant that survives is an error, unless `tests/contract/survivors.toml` says why no test could
notice it; so is a row of that table whose mutant does not survive. `--minutes` bounds the run.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mutant_kernel import ROOT, SOURCE, KernelCopy
from mutant_source import Mutant, mutants_of
from mutant_tests import (
    INVALID,
    KILLED,
    OPTIONS,
    SURVIVED,
    TIMEOUT,
    Judges,
    Run,
    judging_files,
)

FILES = (
    "hooks.py",
    "coordinator.py",
    "_hook_results.py",
    "session.py",
    "history.py",
    "_mounting.py",
    "loader.py",
    "_discovery.py",
    "_isolation.py",
)
TABLE = ROOT / "tests" / "contract" / "survivors.toml"
SEED = "amplifier"
WORKERS = 2
# After these seconds, or after so many times what the tests take without a mutant, a mutant counts
# as one that never ends.
_LEAST_LIMIT = 60
_TIMES_CONTROL = 5
# Seconds: what no machine takes for the tests of one file, however busy it is.
_CONTROL_LIMIT = 600

Key = tuple[str, str, str, str, int]


def read_table() -> dict[Key, str]:
    """Return the survivors that are accepted, with the reason for each."""
    if not TABLE.exists():
        return {}
    rows: list[dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["survivor"]
    return {_key(row): row["why"] for row in rows}


def _key(row: dict[str, Any]) -> Key:
    return row["file"], row["function"], row["line"], row["change"], row.get("occurrence", 0)


def sampled(mutants: list[Mutant], count: int) -> list[Mutant]:
    """Return a fixed part of the mutants, which an edit elsewhere in the code leaves as it is."""
    return sorted(mutants, key=_lot)[:count]


def _lot(mutant: Mutant) -> str:
    return hashlib.sha256(repr((SEED, mutant.key)).encode()).hexdigest()


class Trial:
    """A pytest plugin: instead of running the tests, it has them judge mutants."""

    def __init__(self, mutants: list[Mutant], folder: Path, minutes: float) -> None:
        self.outcomes: dict[Key, str] = {}
        self._mutants = mutants
        self._minutes = minutes
        self._notes = folder / "notes"
        self._copies = [KernelCopy(folder / f"kernel{number}") for number in range(WORKERS)]
        self._copies[0].use()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants; those that the time does not suffice for are left out."""
        # A fork need not look at what there is before it.
        gc.freeze()
        judges = Judges(session, self._copies[0], self._notes)
        limit = max(_LEAST_LIMIT, _TIMES_CONTROL * self._slowest_control(judges))
        ends = time.monotonic() + 60 * self._minutes
        waiting = sorted(self._mutants, key=_lot, reverse=True)
        running: list[Run] = []
        while running or (waiting and time.monotonic() < ends):
            while self._copies and waiting and time.monotonic() < ends:
                running.append(Run(waiting.pop(), judges, self._copies.pop(), limit))
            for run in list(running):
                outcome = run.poll()
                if outcome is not None:
                    running.remove(run)
                    self._take(run, outcome)
            time.sleep(0.002)
        return True

    def _take(self, run: Run, outcome: str) -> None:
        if not run.mutant.is_in_function:
            run.kernel.restore(run.mutant.file)
        self._copies.append(run.kernel)
        self.outcomes[run.mutant.key] = outcome
        if outcome == SURVIVED:
            print(f"  survived: {run.mutant}", flush=True)
        if len(self.outcomes) % 100 == 0:
            print(f"  {len(self.outcomes)} of {len(self._mutants)}", flush=True)

    def _slowest_control(self, judges: Judges) -> float:
        """Have a mutant judged that changes nothing, in each file: it has to survive.

        Returns:
            The seconds that the slowest took: how fast the tests are on this machine.
        """
        # A fresh process takes seconds, and is the same for every file.
        one_of_each = {
            mutant.file if mutant.is_in_function else "": mutant for mutant in self._mutants
        }
        slowest = 0.0
        for mutant in one_of_each.values():
            started = time.monotonic()
            control = Run(mutant.without_change(), judges, self._copies[0], _CONTROL_LIMIT)
            while (outcome := control.poll()) is None:
                time.sleep(0.002)
            self._copies[0].restore(mutant.file)
            if outcome != SURVIVED:
                raise SystemExit(f"mutants: without any change, {mutant.file} is {outcome}")
            slowest = max(slowest, time.monotonic() - started)
        return slowest


def summary(outcomes: dict[Key, str]) -> list[str]:
    """Return the result by file, as lines of a table."""
    heads = ("file", "mutants", "killed", "timeouts", "survived", "score")
    lines = ["{:<20}{:>9}{:>9}{:>10}{:>10}{:>9}".format(*heads)]
    for file in (*FILES, ""):
        counts = Counter(what for key, what in outcomes.items() if key[0] == file or not file)
        total = counts[KILLED] + counts[TIMEOUT] + counts[SURVIVED]
        if total:
            score = f"{100 * (total - counts[SURVIVED]) / total:.1f} %"
            numbers = (total, counts[KILLED], counts[TIMEOUT], counts[SURVIVED])
            lines.append("{:<20}{:>9}{:>9}{:>10}{:>10}{:>9}".format(file or "all", *numbers, score))
    return lines


def complaints(
    outcomes: dict[Key, str], known: set[Key], accepted: dict[Key, str], places: dict[Key, str]
) -> list[str]:
    """Return what is wrong: survivors without a reason, and reasons without a survivor."""
    found = [
        f"survived: {places[key]}"
        for key, outcome in sorted(outcomes.items())
        if outcome == SURVIVED and key not in accepted
    ]
    for key in accepted:
        if key not in known:
            found.append(f"in the table, but there is no such mutant: {key}")
        elif outcomes.get(key, SURVIVED) != SURVIVED:
            found.append(f"in the table, but {outcomes[key]}: {places[key]}")
    return found


def main() -> int:
    """Run the mutants that are asked for; 1 when something survives without a reason."""
    asked = _arguments()
    every = [mutant for file in FILES for mutant in mutants_of(SOURCE / "amplifier_core" / file)]
    chosen = every
    if asked.file:
        chosen = [mutant for mutant in chosen if mutant.file in asked.file]
    if asked.again:
        earlier = json.loads(Path(asked.again).read_text(encoding="utf-8"))
        survived = {_key(row) for row in earlier if row["outcome"] == SURVIVED}
        chosen = [mutant for mutant in chosen if mutant.key in survived]
    if asked.sample:
        chosen = sampled(chosen, asked.sample)
    places = {each.key: str(each) for each in every}
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    started = time.monotonic()
    try:
        trial = Trial(chosen, folder, asked.minutes)
        options = [*OPTIONS, "--hypothesis-profile=mutants", *judging_files()]
        if pytest.main(options, [trial]) != 0:
            return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcomes = trial.outcomes
    if asked.out:
        _write(Path(asked.out), every, outcomes)
    outcomes = {key: what for key, what in outcomes.items() if what != INVALID}
    found = complaints(outcomes, set(places), read_table(), places)
    print("\n".join(["", *summary(outcomes), *found]))
    missing = len(chosen) - len(trial.outcomes)
    seconds = time.monotonic() - started
    print(f"seed {SEED}, {seconds:.0f} s, not run {missing}, complaints {len(found)}")
    return 1 if found else 0


def _write(path: Path, mutants: list[Mutant], outcomes: dict[Key, str]) -> None:
    rows = [
        {
            "file": each.file,
            "function": each.function,
            "line": each.line,
            "change": each.change,
            "occurrence": each.occurrence,
            "number": each.number,
            "outcome": outcomes[each.key],
        }
        for each in mutants
        if each.key in outcomes
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="how many, instead of all")
    parser.add_argument("--file", action="append", choices=FILES, help="only this file")
    parser.add_argument("--again", help="only what survived in the run written to this file")
    parser.add_argument("--out", help="write every outcome to this file, as JSON")
    parser.add_argument("--minutes", type=float, default=60, help="start no mutant after these")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
