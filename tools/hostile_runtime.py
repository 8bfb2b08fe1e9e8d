"""Hostile sessions on a database: run by workers of which one may be killed, then continued."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from amplifier_runtime.client import Client
from amplifier_runtime.database.database import Database
from amplifier_runtime.database.migrate import migrate
from amplifier_runtime.database.store import Turn
from amplifier_runtime.log.reader import LogReader
from amplifier_runtime.worker.worker import Worker, WorkerSettings
from amplifier_runtime.worker_parts import all_parts
from hostile_files import describe
from hostile_sessions import Session, check_texts

_TENANT = "fuzz"
_LIMIT_SECONDS = 300.0
_POLL_SECONDS = 0.05
_KILLS_ALLOWED = 5


class DatabaseRuns:
    """Runs a batch of sessions on one database, each step in a process of its own."""

    def __init__(self, url: str, sessions: list[Session], folder: Path) -> None:
        self._url = url
        self._sessions = sessions
        self._folder = folder
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self) -> None:
        """Run both turns of all sessions; a worker that is killed is followed by another."""
        self.counts["sessions"] = len(self._sessions)
        self._in_process(self._prepare)
        for number in range(2):
            for _ in range(_KILLS_ALLOWED):
                if not self._in_process(lambda at=number: self._turns(at)):
                    break
                self.counts["killed"] += 1
        report = json.loads((self._folder / "report").read_text())
        self.counts.update(report["counts"])
        self.failures += report["failures"]

    def _in_process(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run `work` in a process of its own; whether that was killed."""
        assert sys.platform != "win32", "Windows has no fork"
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(work())
            except BaseException:  # noqa: BLE001 - the process ends here, whatever it was
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return True
        if status != 0:
            raise RuntimeError("a step of the runtime failed; its traceback is above")
        return False

    async def _prepare(self) -> None:
        database = Database(self._url)
        await migrate(database)
        client = Client(database, _TENANT)
        for session in self._sessions:
            await client.create_session(_name(session), session.plan(str(self._folder)))
        database.close()

    async def _turns(self, number: int) -> None:
        """Submit one turn of each session, and wait until all are over or parked."""
        database = Database(self._url)
        settings = WorkerSettings(
            self._url,
            beat_seconds=0.25,
            dead_after_seconds=2.0,
            poll_seconds=0.05,
            # Turns that ran beside the one that kills their worker crash with it.
            crash_limit=_KILLS_ALLOWED + 2,
            parts=all_parts(database),
        )
        failures: dict[int, str] = {}
        counts: Counter[str] = Counter()
        # A turn behind one that nobody can finish would wait for ever.
        broken = self._broken()
        going = [session for session in self._sessions if session.number not in broken]
        async with Worker(settings):
            client = Client(database, _TENANT)
            turns: dict[int, Turn] = {}
            for session in going:
                try:
                    turns[session.number] = await client.submit(
                        _name(session), session.prompts[number], idempotency_key=f"turn {number}"
                    )
                except Exception as error:  # noqa: BLE001 - finding these is what this is for
                    failures[session.number] = describe(session, "submit", error)
            for session in going:
                if session.number not in turns:
                    continue
                try:
                    await self._check(client, database, session, turns[session.number].turn_id)
                    counts["turns resumed" if number else "turns"] += 1
                except Exception as error:  # noqa: BLE001 - finding these is what this is for
                    failures[session.number] = describe(session, f"turn {number + 1}", error)
        database.close()
        self._report(counts, failures)

    async def _check(
        self, client: Client, database: Database, session: Session, turn_id: str
    ) -> None:
        turn = await _ended(client, turn_id)
        assert turn.state == "done", f"{turn.state} {turn.reason} {turn.error}"
        assert turn.answer is not None
        check_texts(turn.answer)
        check_texts(await client.messages(_name(session)))
        assert await LogReader(database).read(_TENANT, _name(session)), "the log is empty"

    def _broken(self) -> set[int]:
        """Return the sessions that failed in the turn before."""
        path = self._folder / "report"
        return set(json.loads(path.read_text())["broken"]) if path.exists() else set()

    def _report(self, counts: Counter[str], failures: dict[int, str]) -> None:
        path = self._folder / "report"
        report: dict[str, Any] = {"failures": [], "broken": []}
        if path.exists():
            report = json.loads(path.read_text())
            counts.update(report["counts"])
        report["counts"] = counts
        report["failures"] += failures.values()
        report["broken"] += failures.keys()
        path.write_text(json.dumps(report))


async def _ended(client: Client, turn_id: str) -> Turn:
    """Wait until a turn is over, or parked because nobody can run it."""
    async with asyncio.timeout(_LIMIT_SECONDS):
        while True:
            turn = await client.turn(turn_id)
            if turn.is_finished or turn.state == "parked":
                return turn
            await asyncio.sleep(_POLL_SECONDS)


def _name(session: Session) -> str:
    return f"session-{session.number}"


def run_on_database(
    url: str, sessions: list[Session], folder: Path
) -> tuple[dict[str, int], list[str]]:
    """Run sessions, and return what was counted and what failed."""
    runs = DatabaseRuns(url, sessions, folder)
    runs.run()
    # The journal of a killed turn is replayed by the worker that takes it over.
    runs.counts["replayed"] = runs.counts["killed"]
    return dict(runs.counts), runs.failures
