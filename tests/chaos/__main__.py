"""Runs chaos and says what came of it: `python -m chaos --help`, in the folder of the tests."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import logging
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path

from amplifier_runtime.database.database import Database
from amplifier_runtime.database.local_postgres import LocalPostgres
from amplifier_runtime.database.migrate import migrate
from chaos.evidence import Evidence, gather
from chaos.fleet import LOG_FORMAT, Fleet, Workplace
from chaos.judge import figures, judge
from chaos.people import People
from chaos.report import table
from chaos.script import OUR_LOOPS, PUBLISHED_LOOP, write_script
from chaos.stage import Trace
from chaos.storm import Storm, Weather
from chaos.vendor import Vendor

# The server itself tells when each row was committed.
_SETTINGS = "track_commit_timestamp = on"
_MOST_COMPLAINTS = 40
# In good order, and as if it crashed.
_STOPS = ("fast", "immediate")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--seed", type=int, help="repeats a run; a new one if it is not given")
    parser.add_argument("--loop", type=Path, help="the package folder of a loop to run as well")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=16, help="turns of one worker")
    parser.add_argument("--width", type=int, default=24, help="sessions at the same time")
    parser.add_argument("--kill-seconds", type=float, default=1.0, help="one kill in each")
    parser.add_argument("--most-kills", type=int, help="then it is calm")
    parser.add_argument("--pause-seconds", type=float, default=6.0, help="about one pause in each")
    parser.add_argument(
        "--restarts", type=int, default=2, help="of the database, every other a crash"
    )
    parser.add_argument("--beat-seconds", type=float, default=0.25)
    parser.add_argument("--dead-after-seconds", type=float, default=1.0)
    parser.add_argument("--timeout-seconds", type=float, default=1800.0)
    parser.add_argument("--folder", type=Path, help="for logs and effects; kept")
    return parser.parse_args()


async def run(options: argparse.Namespace, folder: Path, server: LocalPostgres) -> Evidence:
    """Put everybody on the stage, let it storm until all turns have ended, and look."""
    loops = (*OUR_LOOPS, PUBLISHED_LOOP) if options.loop else OUR_LOOPS
    sessions = write_script(options.seed, options.turns, loops)
    url = server.create_database("chaos")
    database = Database(url, connections=20, patience_seconds=120.0)
    await migrate(database)
    people = People(database, options.seed, sessions)
    async with Vendor(options.seed) as vendor:
        place = Workplace(
            url,
            folder,
            vendor.port,
            options.seed,
            options.beat_seconds,
            options.dead_after_seconds,
            options.concurrency,
            options.loop,
        )
        fleet = Fleet(place, options.workers)
        for slot in range(fleet.size):
            fleet.start(slot)
        weather = Weather(
            kill_seconds=options.kill_seconds,
            pause_seconds=options.pause_seconds,
            shortest_pause=1.2 * options.dead_after_seconds,
            longest_pause=4.0 * options.dead_after_seconds,
            restarts=tuple(itertools.islice(itertools.cycle(_STOPS), options.restarts)),
            most_kills=options.most_kills,
        )
        storm = Storm(options.seed, weather, fleet, server, url, people.progress)
        blowing = asyncio.create_task(storm.blow())
        try:
            async with asyncio.timeout(options.timeout_seconds):
                await people.use(options.width)
        except TimeoutError:
            people.complaints.append(f"not ended after {options.timeout_seconds} seconds")
        finally:
            blowing.cancel()
            await asyncio.gather(blowing, return_exceptions=True)
            codes = await fleet.leave()
    # One that has only just been started does not know yet how to leave.
    if any(code not in (0, -signal.SIGTERM) for code in codes):
        people.complaints.append(f"workers left with {codes}")
    effects = Trace(folder / "effects").lines()
    found = await gather(database, sessions, people, storm.damage, vendor.asks, effects)
    database.close()
    return found


def main() -> int:
    """Run, print the figures and a row for a table, and return 1 if something is wrong."""
    options = arguments()
    options.seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    say(f"seed {options.seed}")
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=folder / "client.log", format=LOG_FORMAT)
        server = stack.enter_context(LocalPostgres(settings=_SETTINGS))
        began = time.monotonic()
        found = asyncio.run(run(options, folder, server))
        found.dump(folder / "evidence.json")
    wrong = judge(found)
    told = {"seed": options.seed, **figures(found), "wrong": len(wrong)}
    told["duration, s"] = round(time.monotonic() - began, 1)
    for name, value in told.items():
        say(f"{name:<32} {value}")
    for line in wrong[:_MOST_COMPLAINTS]:
        say(f"WRONG {line}")
    for line in table(told):
        say(line)
    return min(len(wrong), 1)


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201 - a program talks to a terminal


if __name__ == "__main__":
    sys.exit(main())
