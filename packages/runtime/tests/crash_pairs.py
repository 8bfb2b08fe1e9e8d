"""Kills a worker at one boundary of a turn that asks, and the next at another: every pair, judged.

Usage: crash_pairs.py [--database sqlite|postgresql] [--sample COUNT --seed SEED] [--help]
Prints a row of a Markdown table for each database, and what is wrong; exits with 1 if anything is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from crash_pair_judge import judge
from crash_pair_run import FURTHER, Case, When, finish, play, warm
from runtime_stage import Trace
from warm_forks import fork, share

from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate

_DATABASES = ("sqlite", "postgresql")
_ANSWERS: tuple[When, ...] = ("late", "early")
_LOOPS = ("loop-basic", "loop-streaming")
# What is lost with the machine anyway need not be kept safe.
_SETTINGS = "fsync = off\nfull_page_writes = off\nautovacuum = off"
_KILLED, _ENDED = -9, 0
_COLUMNS = ("database", "loop", "answer", "boundaries", "pairs", "wrong", "seconds")
_MOST_SHOWN = 20

Result = dict[str, Any]
T = TypeVar("T")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="crash_pairs.py", description=__doc__)
    parser.add_argument("--database", choices=_DATABASES, help="both, if it is not given")
    parser.add_argument("--loop", choices=_LOOPS, default="loop-basic")
    parser.add_argument("--answer", choices=_ANSWERS, help="when the user does; both ways if not")
    parser.add_argument("--sample", type=int, help="so many pairs instead of all")
    parser.add_argument("--seed", type=int, default=11, help="which pairs are in the sample")
    parser.add_argument("--width", type=int, default=6, help="pairs at the same time")
    return parser.parse_args()


@contextmanager
def databases(kind: str, folder: Path, count: int) -> Generator[list[str]]:
    """Make databases with all tables in them, one for each that is tried at the same time."""
    if kind == "sqlite":
        urls = [f"sqlite:///{folder / f'{number}.sqlite'}" for number in range(count)]
        for url in urls:
            _fill(url)
        yield urls
        return
    with LocalPostgres(settings=_SETTINGS) as server:
        _fill(server.create_database("filled"))
        yield [
            server.create_database(f"pairs_{number}", template="filled") for number in range(count)
        ]


def _fill(url: str) -> None:
    async def make() -> None:
        database = Database(url)
        await migrate(database)
        database.close()

    # The engine must not have been started in the process that forks.
    assert fork(make) == 0


class _Pairs:
    """The pairs of one database, loop and way to answer."""

    def __init__(self, folder: Path, urls: Sequence[str], loop: str, when: When) -> None:
        self._folder = folder
        self._urls = urls
        self._loop = loop
        self._when: When = when
        self._results = Trace(folder / "results")
        folder.mkdir()
        case = self._case(urls[0], "whole")
        assert play(case, None) == _ENDED
        assert finish([case]) == _ENDED
        self._whole = _read(case)
        assert judge(self._whole, self._whole) == []
        lines = self._whole["trace"]
        self.boundaries = sum(line.startswith("place ") for line in lines[: lines.index(FURTHER)])

    def try_all(self, seed: int) -> list[Result]:
        """Kill at every boundary, and each time at every boundary of the run after it."""
        # The first boundaries have the most second ones: mixed, each share takes as long.
        order = random.Random(seed).sample(range(self.boundaries), self.boundaries)
        share(self._urls, _shares(order, len(self._urls)), self._kill_all_after)
        return self._read_results()

    def try_sample(self, count: int, seed: int) -> list[Result]:
        """Kill at some pairs; a second run may end before its place."""
        places = range(self.boundaries)
        pairs = [(first, second) for first in places for second in places]
        chosen = random.Random(seed).sample(pairs, count)
        share(self._urls, _shares(chosen, len(self._urls)), self._kill_each)
        return self._read_results()

    def _kill_all_after(self, url: str, firsts: Sequence[int]) -> None:
        for first in firsts:
            killed: list[tuple[Case, list[int]]] = []
            for second in itertools.count():
                killed.append(self._kill_twice(url, (first, second)))
                if killed[-1][1][1] != _KILLED:
                    break
            self._end_and_judge(killed)

    def _kill_each(self, url: str, pairs: Sequence[tuple[int, int]]) -> None:
        self._end_and_judge([self._kill_twice(url, pair) for pair in pairs])

    def _kill_twice(self, url: str, places: tuple[int, int]) -> tuple[Case, list[int]]:
        case = self._case(url, f"{places[0]}-{places[1]}")
        return case, [play(case, place) for place in places]

    def _end_and_judge(self, killed: Sequence[tuple[Case, list[int]]]) -> None:
        last = finish([case for case, _ in killed]) if killed else _ENDED
        for case, exits in killed:
            wrong: list[str] = []
            if exits[0] != _KILLED or exits[1] not in (_KILLED, _ENDED):
                wrong.append("a worker ended by itself")
            if case.facts_file.exists():
                wrong += judge(_read(case), self._whole)
            else:
                wrong.append(f"the turns did not end; the last worker ended with {last}")
            result = {"pair": case.session_id, "exits": exits, "wrong": wrong}
            self._results.note(json.dumps(result))

    def _case(self, url: str, name: str) -> Case:
        return Case(url, f"{self._when}-{name}", self._loop, self._when, self._folder)

    def _read_results(self) -> list[Result]:
        return [json.loads(line) for line in self._results.lines()]


def _shares(tasks: Sequence[T], count: int) -> list[Sequence[T]]:
    return [tasks[number::count] for number in range(count)]


def _read(case: Case) -> Result:
    return json.loads(case.facts_file.read_text(encoding="utf-8"))


def try_pairs(options: argparse.Namespace, kind: str, when: When) -> tuple[str, list[str]]:
    """Return a row of the table, and what is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with databases(kind, folder, options.width) as urls:
            began = time.monotonic()
            pairs = _Pairs(folder / "pairs", urls, options.loop, when)
            if options.sample is None:
                results = pairs.try_all(options.seed)
            else:
                results = pairs.try_sample(options.sample, options.seed)
    # A second worker that ended before its place is a single kill, and judged all the same.
    reached = [each for each in results if each["exits"][1] == _KILLED]
    wrong = [f"{kind} {each}" for each in results if each["wrong"]]
    seconds = round(time.monotonic() - began)
    row = (kind, options.loop, when, pairs.boundaries, len(reached), len(wrong), seconds)
    return f"| {' | '.join(map(str, row))} |", wrong


def main() -> int:
    """Try the pairs, print the table, and return 1 if something is wrong."""
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        warm(options.loop, Path(folder))
    say(f"| {' | '.join(_COLUMNS)} |")
    say(f"|{'---|' * len(_COLUMNS)}")
    wrong: list[str] = []
    for kind in (options.database,) if options.database else _DATABASES:
        for when in (options.answer,) if options.answer else _ANSWERS:
            row, found = try_pairs(options, kind, when)
            say(row)
            wrong += found
    for line in wrong[:_MOST_SHOWN]:
        say(f"WRONG {line}")
    return min(len(wrong), 1)


def say(line: str) -> None:
    """Print a line."""
    print(line, flush=True)  # noqa: T201 - a program talks to a terminal


if __name__ == "__main__":
    sys.exit(main())
