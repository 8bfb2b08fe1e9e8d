"""Kills a worker at one place of a turn, the one that takes over at another, and lets a third end.

Usage: double_crash_program.py FOLDER LOOP SEED COUNT URL...
COUNT pairs of places are drawn by SEED; the second place is counted in the second worker's own run.
Prints a JSON line for each pair. As many are tried at the same time as there are databases.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path

from crash_program import repeated
from event_crash_program import create, play
from runtime_stage import Trace
from warm_forks import fork, say, share, warm_up


def kill(folder: Path, loop: str, url: str, places: tuple[int, int]) -> None:
    session_id = f"s{places[0]}-{places[1]}"
    trace = Trace(folder / session_id)
    fork(partial(create, url, session_id, loop))
    exits = [play(url, session_id, trace, at) for at in (*places, None)]
    lines = [line.replace("place ", "boundary ", 1) for line in trace.lines()]
    say(
        url=url,
        session=session_id,
        exits=exits,
        repeated=repeated(lines),
        pay=len(trace.lines("effect pay")),
    )


def main(folder: Path, loop: str, seed: int, count: int, urls: list[str]) -> None:
    warm_up(loop)
    whole = Trace(folder / "trace-whole")
    fork(partial(create, urls[0], "whole", loop))
    play(urls[0], "whole", whole, None)
    places = len(whole.lines("place"))
    dice = random.Random(seed)
    pairs = [(first, second) for first in range(places) for second in range(places)]
    share(urls, dice.sample(pairs, count), partial(kill, folder, loop))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
