"""Kills a worker at one place of a turn, the one that takes over at another, and lets a third end.

Usage: double_crash_program.py URL FOLDER LOOP SEED COUNT. COUNT pairs of places are drawn by SEED;
the second place is counted in the second worker's own run. Prints a JSON line for each pair.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path

from crash_program import repeated
from event_crash_program import KillPoint, create, fork, run, say
from runtime_stage import Trace


def play(url: str, session_id: str, trace: Trace, at: int | None) -> int:
    """Run a worker that is killed at the place reached as the `at`-th; returns its exit code."""
    return fork(partial(run, url, session_id, KillPoint(at, trace), trace))


def main(url: str, folder: Path, loop: str, seed: int, count: int) -> None:
    whole = Trace(folder / "trace-whole")
    fork(partial(create, url, "whole", loop))
    play(url, "whole", whole, None)
    places = len(whole.lines("place"))
    dice = random.Random(seed)
    pairs = [(first, second) for first in range(places) for second in range(places)]
    for first, second in dice.sample(pairs, count):
        session_id = f"s{first}-{second}"
        trace = Trace(folder / session_id)
        fork(partial(create, url, session_id, loop))
        exits = [play(url, session_id, trace, at) for at in (first, second, None)]
        lines = [line.replace("place ", "boundary ", 1) for line in trace.lines()]
        say(
            session=session_id,
            exits=exits,
            repeated=repeated(lines),
            pay=len(trace.lines("effect pay")),
        )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
