"""Kills a worker at every boundary of a recipe with a gate, and lets another finish each time.

Usage: recipe_crash_program.py FOLDER URL...
The recipe has one step before its gate and two after it; the first turn ends at the gate, the
second one approves. Prints one JSON line per boundary. As many are tried at the same time as there
are databases.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from runtime_stage import Trace
from warm_forks import fork, say, share, warm_up

from amplifier_runtime.children.children import Children
from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database, all_of
from amplifier_runtime.worker.worker import Worker, WorkerSettings

KILLED = 137
QUICK: dict[str, Any] = {"beat_seconds": 0.1, "dead_after_seconds": 0.4, "poll_seconds": 0.05}
PROMPTS = ("Run the recipe.", "I approve.")


class CrashPoint:
    """Ends the process without a word at the boundary of this number; None is nowhere."""

    def __init__(self, at: int | None, trace: Trace) -> None:
        self._at = at
        self._trace = trace
        self._reached = 0

    def __call__(self, name: str) -> None:
        self._reached += 1
        self._trace.note("boundary", name)
        if self._reached == self._at:
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


async def run(url: str, folder: Path, at: int | None) -> None:
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


def play(url: str, folder: Path, at: int | None) -> int:
    """Run a worker in a process of its own; returns its exit code."""
    return fork(partial(run, url, folder, at))


def main(folder: Path, urls: list[str]) -> None:
    warm_up("loop-basic")
    whole = folder / "whole"
    whole.mkdir()
    play(urls[0], whole, None)
    boundaries = len(Trace(whole / "trace").lines("boundary"))

    def kill(url: str, number: int) -> None:
        place = folder / f"recipe-{number}"
        place.mkdir()
        trace = Trace(place / "trace")
        first = play(url, place, number)
        last = play(url, place, None) if first == KILLED else first
        found = [line.removeprefix("result ") for line in trace.lines("result")]
        say(
            # Empty if the run did not come to this boundary; its exit codes say how it ended.
            killed="".join(trace.lines("boundary")[number - 1 : number]),
            exit=[first, last],
            result=json.loads(found[-1]) if found else None,
            models=len(trace.lines("model")),
        )

    say(boundaries=boundaries, models=len(Trace(whole / "trace").lines("model")))
    share(urls, list(range(1, boundaries + 1)), kill)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
