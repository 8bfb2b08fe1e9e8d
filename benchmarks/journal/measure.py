"""The CPU time that readings take: for a whole log, and for each record that is added to it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from typing import Any

from amplifier_journal.readings.explanation import Explanations
from amplifier_journal.readings.items import Items
from amplifier_journal.readings.spending import Spending
from amplifier_journal.readings.state import SessionState
from amplifier_journal.readings.timeline import Timeline
from amplifier_journal.records import Record

READINGS: dict[str, Callable[[], Any]] = {
    "state": SessionState,
    "timeline": Timeline,
    "spending": Spending,
    "requests and explanation": Explanations,
    "items": Items,
}
LAST = 1_000
ROUNDS = 5
FEWEST_ROUNDS, MOST_ROUNDS = 3, 40


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the CPU seconds of the cheapest round: noise only ever adds."""
    gc.collect()
    times: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def read(records: Iterable[Record], readings: Iterable[Callable[[], Any]]) -> list[Any]:
    """Let new readings take all records, each record by all of them."""
    made = [reading() for reading in readings]
    takes = [each.take for each in made]
    for record in records:
        for take in takes:
            take(record)
    return made


def following(
    records: list[Record], lengths: tuple[int, int], most_ratio: float
) -> tuple[float, float]:
    """Return the CPU seconds per record of the last 1,000, in a log of each of the two lengths.

    What else the machine does only adds: on a busy one it takes more rounds to see the ratio.
    """
    costs: tuple[list[float], list[float]] = ([], [])
    while len(costs[0]) < FEWEST_ROUNDS or (
        len(costs[0]) < MOST_ROUNDS and min(costs[1]) > most_ratio * min(costs[0])
    ):
        for length, times in zip(lengths, costs, strict=True):
            times.append(_last_cost(records[:length]))
    return min(costs[0]), min(costs[1])


def _last_cost(records: list[Record]) -> float:
    takes = [each.take for each in read(records[:-LAST], READINGS.values())]
    gc.collect()
    gc.disable()
    start = time.process_time()
    for record in records[-LAST:]:
        for take in takes:
            take(record)
    taken = time.process_time() - start
    gc.enable()
    return taken / LAST
