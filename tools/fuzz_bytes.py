"""Run sessions full of bytes that are not text: run, kill, resume, replay, on every store.

    python tools/fuzz_bytes.py --cases 10000 --seed 7

`--without-fix` turns off what makes text valid, and has to find what was wrong before.
"""

from __future__ import annotations

import argparse
import logging
import math
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from amplifier_kit import valid_text
from hostile_files import run_on_files
from hostile_runtime import run_on_database
from hostile_sessions import Maker, Session

Run = Callable[[list[Session], Path], tuple[dict[str, int], list[str]]]

_STORES = ("files", "sqlite", "postgres")
_MEMORIES = {"files": ("context-simple", "context-persistent")}
# Of the sessions on files, which are killed one by one; a database's worker has a batch.
_KILLS = {"files": 0.2, "sqlite": 0.04, "postgres": 0.04}
_BATCH = 50
_SHOWN = 10
_COUNTED = ("sessions", "killed", "turns resumed", "replayed")
_SETTINGS = "fsync = off\nfull_page_writes = off\nautovacuum = off"


class Table:
    """What was counted on one store, and what failed."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.seconds = 0.0

    def row(self) -> str:
        """Return a line of a Markdown table."""
        cells = [f"{self.counts[name]:,}" for name in _COUNTED]
        cells += [f"{len(self.failures):,}", f"{self.seconds:.0f}"]
        return f"| {self.store} | " + " | ".join(cells) + " |"


def disable_fix() -> None:
    """Let every text through as it is, as it was before there was a function for it."""
    valid_text._INVALID = re.compile("(?!)")  # pyright: ignore[reportPrivateUsage] - the switch


def fuzz(store: str, cases: int, seed: int) -> Table:
    """Run sessions on one store and return what came of them."""
    table = Table(store)
    began = time.monotonic()
    memories = _MEMORIES.get(store, ("context-simple",))
    maker = Maker(seed, memories=memories, kills=_KILLS[store])
    with tempfile.TemporaryDirectory(prefix="amplifier-fuzz-") as folder, _runner(store) as run:
        for start in range(0, cases, _BATCH):
            numbers = range(start, min(cases, start + _BATCH))
            home = Path(folder) / str(start)
            home.mkdir()
            counts, failures = run([maker.session(number) for number in numbers], home)
            table.counts.update(counts)
            table.failures += failures
    table.seconds = time.monotonic() - began
    return table


@contextmanager
def _runner(store: str) -> Generator[Run]:
    """Give what runs sessions on a store; each batch has files or a database of its own."""
    if store == "files":
        yield run_on_files
    elif store == "sqlite":
        yield lambda each, home: run_on_database(f"sqlite:///{home / 'db.sqlite'}", each, home)
    else:
        from amplifier_runtime.database.local_postgres import LocalPostgres  # noqa: PLC0415 - as needed

        with LocalPostgres(settings=_SETTINGS) as server:
            yield lambda each, home: run_on_database(
                server.create_database(f"fuzz_{home.name}"), each, home
            )


def main() -> int:
    """Print the table, and the first failures; the exit status is 1 when there are any."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="over all stores together")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--store", choices=_STORES, action="append")
    parser.add_argument("--without-fix", action="store_true")
    arguments = parser.parse_args()
    # A turn that fails is logged with its traceback; here it is counted.
    logging.disable(logging.CRITICAL)
    if arguments.without_fix:
        disable_fix()
    stores: list[str] = arguments.store or list(_STORES)
    share = math.ceil(arguments.cases / len(stores))
    tables = [fuzz(store, share, arguments.seed) for store in stores]
    headings = ("store", *_COUNTED, "failures", "seconds")
    print("| " + " | ".join(headings) + " |")
    print("|" + "---|" * len(headings))
    for table in tables:
        print(table.row())
    failures = [f"{table.store}: {each}" for table in tables for each in table.failures]
    # `session 7: resume after a kill at tool 0: UnicodeEncodeError: ...`
    kinds = Counter(": ".join(each.split(": ")[2:4]) for each in failures)
    for kind, count in kinds.most_common():
        print(f"{count:>6,}  {kind}")
    for each in failures[:_SHOWN]:
        print(each)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
