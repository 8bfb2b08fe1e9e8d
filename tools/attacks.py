"""Run every attack that a tool or a guard must withstand, and say how many were blocked.

An attack is a test marked `attack("F3")`; the ids are those of docs/explain/security.md. A test may
have several ids and counts for each. One that is skipped was not blocked.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest

# How the original's own tools and hooks fared on the same corpora, as far as it has a counterpart.
ORIGINAL = (
    "the original: 3 of 40 shell re-spellings, 3 of 21 URLs, 4 of 18 secrets; "
    "285 of 3,717 racing reads leaked"
)


class Tally:
    """Counts the attacks of a run, and those that were blocked, by their ids."""

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = {}
        self._blocked: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which tests are attacks, of those that are left to be run."""
        for item in session.items:
            ids = {str(mark.args[0]) for mark in item.iter_markers("attack")}
            if ids:
                self._ids[item.nodeid] = sorted(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which attacks were blocked."""
        if report.when == "call" and report.passed and report.nodeid in self._ids:
            self._blocked.add(report.nodeid)

    def lines(self) -> list[str]:
        """Return the result by id, then the one line that sums it up."""
        tried = Counter(name for ids in self._ids.values() for name in ids)
        blocked = Counter(name for each in self._blocked for name in self._ids[each])
        by_id = [f"  {name}: {blocked[name]} of {tried[name]}" for name in sorted(tried)]
        total = f"attacks blocked: {len(self._blocked):,} of {len(self._ids):,} ({ORIGINAL})"
        return [*by_id, total]


def main() -> int:
    """Run the attacks; the exit status is that of the tests."""
    tally = Tally()
    status = pytest.main(["-q", "-m", "attack", "-p", "no:cacheprovider", *sys.argv[1:]], [tally])
    print("\n".join(tally.lines()))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
