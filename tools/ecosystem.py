"""Run the suites of published modules on their own kernel and on ours, and compare.

Takes folders with snapshots of public repositories, as work trees or as bare git directories. They
are cloned into a folder apart, and nothing of them enters this repository. Writes a table: what
passed on each kernel, which tests differ, and which modules `amplifier module validate` accepts.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from ecosystem_kernels import ORIGINAL, Kernel, Run
from ecosystem_suites import Suite, check_out, find_suites

_ROOT = Path(__file__).resolve().parent.parent
_LONGEST = 200
_REASONS = Path(__file__).with_name("ecosystem_reasons.toml")


class Row(NamedTuple):
    """One suite on both kernels."""

    suite: Suite
    original: Run
    ours: Run

    @property
    def differing(self) -> list[str]:
        """The tests that pass on one kernel and not on the other."""
        return sorted(self.original.passed ^ self.ours.passed)


def _on(kernel: Kernel, suites: list[Suite], published: dict[str, Suite]) -> list[Run]:
    kernel.prepare()
    runs: list[Run] = []
    for suite in suites:
        run = kernel.run(suite, published)
        told = run.note or f"{len(run.passed)} passed, {len(run.failed)} failed"
        print(f"{kernel.name}: {suite.name}: {told} {run.validates}", flush=True)
        runs.append(run)
    return runs


def _compare(suites: list[Suite], published: dict[str, Suite], kernels: list[Kernel]) -> list[Row]:
    with ThreadPoolExecutor(len(kernels)) as pool:
        waiting = [pool.submit(_on, kernel, suites, published) for kernel in kernels]
        runs = [each.result() for each in waiting]
    return [Row(suite, *both) for suite, *both in zip(suites, *runs, strict=True)]


def _table(rows: list[Row], reasons: dict[str, str], commit: str, python: str) -> list[str]:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    modules = [row for row in rows if row.suite.is_module]
    good = [row for row in modules if row.ours.validates == "yes"]
    lines = [
        f"Run on {today}, commit `{commit}`, {python}, against `{ORIGINAL}`:",
        "",
        f"- {sum(len(row.original.passed) for row in rows):,} tests pass on the original, "
        f"{sum(len(row.ours.passed) for row in rows):,} on ours, in "
        f"{sum(row.suite.has_tests for row in rows)} suites",
        f"- {len(good)} of {len(modules)} modules pass `amplifier module validate`",
        "",
        "| distribution | version | repository | commit | original | ours | differ | validates |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name, version, repository, commit_of_it, *_ = row.suite
        counts = " | ".join(_cell(row.suite, run) for run in (row.original, row.ours))
        about = f"{name} | {version} | {repository} | {commit_of_it}"
        valid = "" if not row.suite.is_module else "yes" if row.ours.validates == "yes" else "no"
        lines.append(f"| {about} | {counts} | {len(row.differing)} | {valid} |")
    lines += ["", "Tests that pass on one of the two only:", ""]
    for row in rows:
        lines += _differences(row, reasons)
    lines += ["", "Modules that are not valid here:", ""]
    for row in modules:
        if row.ours.validates != "yes":
            reason = reasons.get(f"validate {row.suite.module_id}") or row.ours.validates[:_LONGEST]
            lines.append(f"- {row.suite.name}: {reason}")
    return lines


def _differences(row: Row, reasons: dict[str, str]) -> Iterator[str]:
    """Yield a line for each reason, with the number of tests it stands for."""
    only = {"the original": row.original.passed, "ours": row.ours.passed}
    for kernel, passed in only.items():
        differing = [test for test in row.differing if test in passed]
        counts = Counter(_pattern_of(test, reasons) or test for test in differing)
        for pattern, count in sorted(counts.items()):
            reason = reasons.get(pattern, "not explained")
            about = f"{row.suite.name}: `{pattern}`"
            yield f"- {about} ({count}) on {kernel}: {reason}"


def _pattern_of(test: str, reasons: dict[str, str]) -> str | None:
    """Return the key of the reasons that names this test, or a set of tests it is in."""
    return next((pattern for pattern in reasons if fnmatchcase(test, pattern)), None)


def _commit() -> str:
    """Return the commit of this checkout, before anything is run."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _cell(suite: Suite, run: Run) -> str:
    if run.note:
        return run.note
    if not suite.has_tests:
        return "no tests"
    return f"{len(run.passed):,}" + (f", {len(run.failed)} failed" if run.failed else "")


def main() -> int:
    """Run, and write the table; 1 when a test differs that nobody has explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshots", type=Path, nargs="+", help="folders with git repositories")
    parser.add_argument("--only", action="append", default=[], help="distributions to run")
    parser.add_argument("--table", type=Path, help="where to write the table")
    parser.add_argument("--python", default=sys.executable, help="what to run the suites with")
    # Outside of this checkout, whose own settings and fixtures pytest would find.
    outside = Path(tempfile.gettempdir()) / "amplifier-ecosystem"
    parser.add_argument("--folder", type=Path, default=outside, help="where they are run")
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    suites = find_suites(check_out(options.snapshots, folder / "sources"))
    published = {suite.name: suite for suite in suites}
    if options.only:
        suites = [suite for suite in suites if suite.name in options.only]
    if not suites:
        print("No published module is in these folders.", file=sys.stderr)
        return 1
    kernels = [Kernel(name, folder, _ROOT, options.python) for name in ("original", "ours")]
    commit = _commit()
    rows = _compare(suites, published, kernels)
    reasons: dict[str, str] = tomllib.loads(_REASONS.read_text(encoding="utf-8"))
    lines = _table(rows, reasons, commit, kernels[0].python_version())
    if options.table:
        options.table.parent.mkdir(parents=True, exist_ok=True)
        options.table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines), flush=True)
    unexplained = [test for row in rows for test in row.differing if not _pattern_of(test, reasons)]
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
