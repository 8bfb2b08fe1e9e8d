"""Kills a worker at every boundary of one turn in sequence, and lets another finish each time.

Usage: crash_program.py FOLDER LOOP URL...
Prints one JSON line per boundary. As many are tried at the same time as there are databases.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from runtime_stage import Stage, Trace, end_of, plan_with
from warm_forks import fork, say, share, warm_up

from amplifier_journal.readings.state import state_of
from amplifier_journal.records import Record
from amplifier_journal.replay.replayer import replay
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.log.session_log import SessionLog
from amplifier_runtime.log.stored import read_log
from amplifier_runtime.worker.worker import Worker, WorkerSettings

KILLED = 137
QUICK: dict[str, Any] = {"beat_seconds": 0.1, "dead_after_seconds": 0.4, "poll_seconds": 0.05}


class CrashPoint:
    """Ends the process without a word at the boundary of this name; None is nowhere."""

    def __init__(self, at: str | None, trace: Trace) -> None:
        self._at = at
        self._trace = trace

    def __call__(self, name: str) -> None:
        self._trace.note("boundary", name)
        if name == self._at:
            os._exit(KILLED)

    async def inside(self, name: str) -> None:
        if name == "begin pay":
            # Parallel siblings are all under way when the unsafe one begins.
            await asyncio.sleep(0.02)
        self(name)


async def run(url: str, session_id: str, loop: str, point: CrashPoint, trace: Trace) -> None:
    database = Database(url, connections=2)
    parts = [SessionLog(database), Stage(trace, point.inside)]
    async with Worker(WorkerSettings(url, parts=parts, boundary=point, crash_limit=9, **QUICK)):
        client = Client(database, "t")
        await client.create_session(session_id, plan_with(loop))
        turn = await client.submit(session_id, "buy", idempotency_key="k")
        async with asyncio.timeout(120):
            result = await end_of(client, turn, trace)
        messages = await client.messages(session_id)
        log = await read_log(database, "t", session_id)
        answer = {
            "answer": result.answer,
            "runs": result.runs,
            "messages": len(messages),
            "adds_up": state_of(log.records()).messages == messages,
            "kinds": sorted(_name(each) for each in log.records()),
            "differences": len((await replay(log)).differences),
        }
        trace.note("answer", json.dumps(answer))
        # A good end takes its time, and nothing here depends on it.
        os._exit(0)


def _name(record: Record) -> str:
    if record.kind == "event":
        return record.data["name"]
    return record.kind


def play(url: str, session_id: str, loop: str, at: str | None, trace: Trace) -> int:
    """Run a worker in a process of its own; returns its exit code."""
    return fork(partial(run, url, session_id, loop, CrashPoint(at, trace), trace))


def main(folder: Path, loop: str, urls: list[str]) -> None:
    warm_up(loop)
    whole = Trace(folder / "trace")
    play(urls[0], "whole", loop, None, whole)
    names = [line.removeprefix("boundary ") for line in whole.lines("boundary")]

    def kill(url: str, place: tuple[int, str]) -> None:
        number, name = place
        trace = Trace(folder / f"trace-{number}")
        first = play(url, f"s{number}", loop, name, trace)
        began = time.monotonic()
        last = play(url, f"s{number}", loop, None, trace)
        say(
            killed=name,
            exit=[first, last],
            seconds=round(time.monotonic() - began, 2),
            result=json.loads(trace.lines("answer")[-1].removeprefix("answer ")),
            repeated=repeated(trace.lines()),
            pay=len(trace.lines("effect pay")),
        )

    share(urls, list(enumerate(names)), kill)


def repeated(lines: list[str]) -> int:
    """Count the model calls that were made again though their outcome was in the journal."""
    kept: set[str] = set()
    asked: list[str] = []
    again = 0
    for line in lines:
        if line.startswith("model "):
            again += line in kept
            asked.append(line)
        elif line.startswith("boundary after llm:") and asked:
            kept.add(asked[-1])
    return again


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
