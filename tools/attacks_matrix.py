"""Run the attacks and the quick security tests on every supported Python, as every kind of user.

What a guard does can depend on both: `zipfile` takes names from elsewhere since Python 3.12, and
root may read and write what an ordinary user may not. Each Python gets a copy of the checkout and
an environment of its own below `build/`; a root user runs the tests as `nobody`, too. A Python
that is not on this machine is named, and has not passed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from matrix_machine import PYTHONS, Place, User, find_python, prepare, users

_WITHOUT = "not realmodel and not fleet"
_SUITES = (
    "tests/attacks",
    "packages/sandbox/tests",
    "packages/kit/tests/secrets",
    "packages/foundation/tests/sources",
    "packages/foundation/tests/config",
    "packages/foundation/tests/bundles",
    "modules/hooks-*/tests",
    "modules/files/tests",
    *(f"modules/tool-{name}/tests" for name in ("bash", "web", "mcp")),
)
_SAMPLE = ("tests/attacks", "packages/foundation/tests/sources", "packages/foundation/tests/config")
# No attacks are in there, and they import tools that are not installed for the matrix.
_IGNORED = ("--ignore=tests/architecture", "--ignore=tests/wire", "--ignore=tests/real_model")
_COUNTS = ("passed", "failed", "skipped")
_FAILED = re.compile(r"^(?:FAILED|ERROR) .*", re.MULTILINE)
_BLOCKED = re.compile(r"^attacks blocked: ([\d,]+) of ([\d,]+)", re.MULTILINE)
_HOURS = 3


class Row(NamedTuple):
    """What one user saw on one Python; `failed` has errors in it, too."""

    python: str
    user: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    blocked: int = 0
    tried: int = 0
    note: str = ""

    @property
    def is_good(self) -> bool:
        """Whether tests ran, and all of them passed."""
        return self.passed > 0 and self.failed == 0 and not self.note

    def cells(self) -> list[str]:
        """Return the row as texts."""
        attacks = f"{self.blocked:,} of {self.tried:,}"
        counts = [f"{each:,}" for each in (self.passed, self.failed, self.skipped)]
        return [self.python, self.user, *counts, attacks, self.note]


def _run(place: Place, user: User, arguments: list[str], log: Path) -> tuple[int, str]:
    """Run a program of the copy as a user; return its exit status and what it wrote."""
    command = [str(place.python), *arguments]
    with log.open("ab") as file:
        start = file.tell()
        status = user.run(
            command,
            cwd=place.checkout,
            env=user.environment(place),
            output=file,
            seconds=_HOURS * 3600,
        )
    return status, log.read_bytes()[start:].decode(errors="replace")


def counted(row: Row, output: str, status: int) -> Row:
    """Add what a run of pytest wrote at its end to a row."""
    ends = [line for line in output.splitlines() if re.search(r"\bin [\d.]+s", line)]
    end = ends[-1] if ends else ""
    numbers = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", end)}
    failed = sum(numbers.get(word, 0) for word in ("failed", "error", "errors"))
    row = row._replace(
        passed=row.passed + numbers.get("passed", 0),
        failed=row.failed + failed,
        skipped=row.skipped + numbers.get("skipped", 0),
    )
    blocked = _BLOCKED.search(output)
    if blocked is not None:
        row = row._replace(
            blocked=row.blocked + int(blocked[1].replace(",", "")),
            tried=row.tried + int(blocked[2].replace(",", "")),
        )
    if status != 0 and not failed:
        row = row._replace(note=f"ended with status {status}")
    return row


def _paths(place: Place, patterns: tuple[str, ...]) -> list[str]:
    found = [path for each in patterns for path in sorted(place.checkout.glob(each))]
    return [str(path.relative_to(place.checkout)) for path in found]


def _sample(place: Place) -> list[str]:
    """Return every third file of the sample, so that the Pythons together run all of it once."""
    files = _paths(place, tuple(f"{folder}/**/test_*.py" for folder in _SAMPLE))
    return files[PYTHONS.index(place.version) :: len(PYTHONS)]


def _try(place: Place, user: User, *, sample: bool) -> Row:
    row = Row(place.version, user.name)
    log = place.folder / f"{user.name}.log"
    log.unlink(missing_ok=True)
    attacks = ["tools/attacks.py"]
    if sample:
        attacks += ["-m", f"not slow and {_WITHOUT}", *_sample(place)]
    else:
        attacks += ["-m", f"attack and {_WITHOUT}", *_IGNORED]
    status, output = _run(place, user, attacks, log)
    row = counted(row, output, status)
    if not sample:
        rest = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
        rest += ["-m", f"not attack and not slow and {_WITHOUT}", *_paths(place, _SUITES)]
        status, output = _run(place, user, rest, log)
        row = counted(row, output, status)
    print(f"python {row.python} as {row.user}: done, see {log}", flush=True)
    # A log stays on the machine that ran it; the names of what failed must reach the reader.
    for line in _FAILED.findall(log.read_text(encoding="utf-8", errors="replace")):
        print(f"  {line}", flush=True)
    return row


def _on_one_python(version: str, root: Path, base: Path, *, sample: bool) -> list[Row]:
    # An ordinary user comes first: files that root leaves in the copy could not be written again.
    everybody = users()
    program = find_python(version)
    if program is None:
        note = "not on this machine, so not tried"
        return [Row(version, user.name, note=note) for user in everybody]
    try:
        place = prepare(version, program, root, base, everybody)
    except (OSError, subprocess.SubprocessError) as error:
        said = " ".join(str(error).split())[-200:]
        return [Row(version, user.name, note=f"not set up: {said}") for user in everybody]
    if sample:
        # An ordinary user meets more refusals; the other one, root, has run `make check` already.
        everybody = everybody[:1]
    return [_try(place, user, sample=sample) for user in everybody]


def table(rows: list[Row]) -> str:
    """Return the rows below their headings, in columns."""
    headings = ["python", "user", *_COUNTS, "attacks blocked", ""]
    lines = [headings, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join(padded)


def main() -> int:
    """Run the matrix; the exit status is 1 unless every test passed on every Python."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sample", action="store_true", help="a fixed part that takes a few minutes"
    )
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this one")
    parser.add_argument(
        "--allow-missing", action="store_true", help="a Python that is not here is no failure"
    )
    parser.add_argument("--jobs", type=int, default=len(PYTHONS), help="how many Pythons together")
    given = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    base = root / "build" / "attacks-matrix"
    versions = given.python or list(PYTHONS)
    with ThreadPoolExecutor(given.jobs) as pool:
        started = [
            pool.submit(_on_one_python, version, root, base, sample=given.sample)
            for version in versions
        ]
        rows = [row for each in started for row in each.result()]
    print(table(rows))
    tried = [row for row in rows if not (given.allow_missing and "so not tried" in row.note)]
    return 0 if tried and all(row.is_good for row in tried) else 1


if __name__ == "__main__":
    sys.exit(main())
