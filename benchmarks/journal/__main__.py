"""The command: measure the readings of a long log, print the figures, fail at a missed bar.

`python -m benchmarks.journal` reads a log of 50,000 records. `python -m benchmarks.journal ratio`
only compares what a record costs in a short and in a long log: a ratio that any machine has.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path

from benchmarks.journal.long_log import long_log
from benchmarks.journal.measure import LAST, READINGS, best, following, read

from amplifier_foundation.store import SessionStore
from amplifier_journal.records import Record

RECORDS = 50_000
SECONDS = 1.0
"""CPU time in which all readings together take all records."""
RATIO = 1.5
"""How much more a record may cost at the end of a log that is five times as long."""


def main() -> int:
    """Run the benchmark; the exit code is the verdict."""
    if sys.argv[1:] == ["ratio"]:
        return 0 if follow(long_log(RECORDS // 2)) else 1
    if sys.platform == "win32":
        sys.exit("Windows does not tell the load of the machine; run the benchmark in WSL.")
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    records = long_log(RECORDS)
    for name, reading in READINGS.items():
        print(f"  {name:<26}{best(lambda made=reading: read(records, [made])):7.3f} s")
    whole = best(lambda: read(records, READINGS.values()))
    is_quick = whole <= SECONDS
    verdict = "ok" if is_quick else "MISSED"
    print(f"{RECORDS:,} records by all readings: {whole:.3f} s, bar {SECONDS:g} s: {verdict}")
    is_constant = follow(records)
    ask(records)
    print(f"lines of the file to records, besides: {parsing(records):.3f} s")
    return 0 if is_quick and is_constant else 1


def follow(records: list[Record]) -> bool:
    """Print what a record costs at the end of a short and of a long log, and judge the ratio."""
    lengths = (len(records) // 5, len(records))
    short, long = following(records, lengths, RATIO)
    ratio = long / short
    verdict = "ok" if ratio <= RATIO else "MISSED"
    each = f"{short * 1e6:.2f} us at {lengths[0]:,} records, {long * 1e6:.2f} at {lengths[1]:,}"
    print(f"one of the last {LAST:,}: {each}; ratio {ratio:.2f}, bar {RATIO:g}: {verdict}")
    return ratio <= RATIO


def ask(records: list[Record]) -> None:
    """Print what it costs to ask readings that have taken all records."""
    _, timeline, spending, explanations, _ = read(records, READINGS.values())
    print(f"asked for all spans:          {best(lambda: timeline.spans) * 1e3:7.2f} ms")
    print(f"asked for all modules' costs: {best(spending.by_module) * 1e3:7.2f} ms")
    print(f"asked for the last request:   {best(explanations.get) * 1e3:7.2f} ms, explained")


def parsing(records: list[Record]) -> float:
    """Return the CPU seconds in which the file store reads the same records from its file."""
    with tempfile.TemporaryDirectory() as folder:
        store = SessionStore(Path(folder) / "home")
        with store.create("long", project=Path(folder)) as writer:
            for record in records:
                writer.append(record.kind, record.data, is_clean=True)
        reader = store.read("long")
        return best(lambda: sum(1 for _ in reader.records()), rounds=3)


if __name__ == "__main__":
    sys.exit(main())
