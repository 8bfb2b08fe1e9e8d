"""Kills a worker at every boundary of a recipe with a gate, and lets another finish each time.

Usage: recipe_crash_program.py FOLDER URL...
The recipe has one step before its gate and two after it; the first turn ends at the gate, the
second one approves. Prints a JSON line for the run that nobody kills, and one for each attempt to
kill another at a boundary of it. As many are tried at the same time as there are databases.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from runtime_stage import Trace
from warm_forks import fork, say, share, warm_up

from amplifier_runtime.children.children import Children
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, all_of
from amplifier_runtime.worker.worker import Worker, WorkerSettings

KILLED = 137
# A run that waits for fewer steps than another does not come to the same boundaries.
ATTEMPTS = 3
QUICK: dict[str, Any] = {"beat_seconds": 0.1, "dead_after_seconds": 0.4, "poll_seconds": 0.05}
PROMPTS = ("Run the recipe.", "I approve.")


class Boundary(NamedTuple):
    """A boundary of a run: the first one of its name, the second, and so on."""

    name: str
    occurrence: int


class CrashPoint:
    """Ends the process without a word at this boundary; None is nowhere."""

    def __init__(self, at: Boundary | None, trace: Trace) -> None:
        self._at = at
        self._trace = trace
        self._reached: Counter[str] = Counter()

    def __call__(self, name: str) -> None:
        self._reached[name] += 1
        self._trace.note("boundary", name)
        if Boundary(name, self._reached[name]) == self._at:
            os._exit(KILLED)


def plan_in(folder: Path) -> dict[str, Any]:
    """Return a plan whose model runs the recipe in its first turn, and approves in its second."""

    def model(steps: list[Any], **more: Any) -> list[dict[str, Any]]:
        config = {"steps": steps, "trace": str(folder / "trace"), **more}
        return [{"module": "provider-steps", "config": config}]

    def call(operation: str) -> dict[str, Any]:
        arguments = {"operation": operation}
        return {"tool_calls": [{"id": operation, "name": "recipe", "arguments": arguments}]}

    operations = dict(zip(PROMPTS, ("execute", "approve"), strict=True))
    turns = {prompt: [call(operation), "{0}"] for prompt, operation in operations.items()}
    config = {"folder": str(folder), "before": ["Gather."], "after": ["Write.", "Check."]}
    return {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "tools": [{"module": "tool-recipe", "repeatable": ["recipe"], "config": config}],
        "agents": {"worker": {"providers": model(["Done."])}},
        "providers": model([], by_prompt=turns),
    }


async def run(url: str, folder: Path, at: Boundary | None) -> None:
    """Have both turns run by a worker that is killed at a boundary, unless they have ended."""
    trace = Trace(folder / "trace")
    parts = [Children(look_seconds=0.05)]
    point = CrashPoint(at, trace)
    async with Worker(WorkerSettings(url, parts=parts, boundary=point, crash_limit=9, **QUICK)):
        database = Database(url, connections=2)
        client = Client(database, "t")
        session_id = folder.name
        await client.create_session(session_id, plan_in(folder))
        answers: list[str | None] = []
        async with asyncio.timeout(60):
            for prompt in PROMPTS:
                turn = await client.submit(session_id, prompt, idempotency_key=prompt)
                answers.append((await client.result(turn.turn_id)).answer)
        await _note(database, session_id, answers, trace)
        # A good end takes its time, and nothing here depends on it.
        os._exit(0)


async def _note(
    database: Database, session_id: str, answers: list[str | None], trace: Trace
) -> None:
    """Note the answers, and the turns that became children of the session."""
    sql = (
        "SELECT t.prompt, t.state FROM children c JOIN turns t ON t.turn_id = c.turn_id "
        "WHERE c.parent_session_id = :parent"
    )
    rows = await database.run(lambda c: [dict(row) for row in all_of(c, sql, parent=session_id)])
    steps = sorted(f"{row['prompt']} {row['state']}" for row in rows)
    trace.note("result", json.dumps({"answers": answers, "steps": steps}))


def play(url: str, folder: Path, at: Boundary | None) -> int:
    """Run a worker in a process of its own; returns its exit code."""
    return fork(partial(run, url, folder, at))


def boundaries_of(trace: Trace) -> list[Boundary]:
    """Return the boundaries that a run came to."""
    seen: Counter[str] = Counter()
    found: list[Boundary] = []
    for line in trace.lines("boundary"):
        name = line.removeprefix("boundary ")
        seen[name] += 1
        found.append(Boundary(name, seen[name]))
    return found


def main(folder: Path, urls: list[str]) -> None:
    warm_up("loop-basic")
    whole = folder / "whole"
    whole.mkdir()
    exits = [play(urls[0], whole, None)]
    boundaries = boundaries_of(Trace(whole / "trace"))

    def kill(url: str, numbered: tuple[int, Boundary]) -> None:
        number, boundary = numbered
        for attempt in range(ATTEMPTS):
            place = folder / f"recipe-{number}-{attempt}"
            place.mkdir()
            exits = [play(url, place, boundary)]
            if exits == [KILLED]:
                exits.append(play(url, place, None))
            say(boundary=boundary, exits=exits, **facts_of(place))
            if exits[0] == KILLED:
                return

    say(boundaries=boundaries, exits=exits, **facts_of(whole))
    share(urls, list(enumerate(boundaries)), kill)


def facts_of(place: Path) -> dict[str, Any]:
    """Return what the runs in this folder did together."""
    trace = Trace(place / "trace")
    results = [line.removeprefix("result ") for line in trace.lines("result")]
    return {
        "result": json.loads(results[-1]) if results else None,
        "models": len(trace.lines("model")),
        "parks": len(trace.lines("boundary after park")),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
