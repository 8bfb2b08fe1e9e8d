"""Hostile sessions on the files of a home folder: run, killed, resumed and replayed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from amplifier_foundation.live import open_live
from amplifier_foundation.replay import replay
from amplifier_foundation.store import SessionStore
from hostile_sessions import Session, check_texts

_LIMIT_SECONDS = 60.0


class FileRuns:
    """Runs sessions one after the other in one home folder."""

    def __init__(self, folder: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._folder = folder
        self._project = folder / "project"
        self._project.mkdir()
        self._store = SessionStore(folder / "home")

    def run(self, session: Session) -> None:
        """Run one session to its end; whatever is raised is a failure."""
        self.counts["sessions"] += 1
        stage = "resume"
        # After a first turn that failed, even a harmless prompt shows whether the session is lost.
        prompt = session.prompts[1] if self._begins(session) else "Are you there?"
        try:
            asyncio.run(self._turn(session, prompt, resume=True))
            self.counts["turns resumed"] += 1
            stage = "replay"
            asyncio.run(self._replay(session))
            self.counts["replayed"] += 1
        except Exception as error:  # noqa: BLE001 - finding these is what this is for
            self.failures.append(describe(session, stage, error))

    def _begins(self, session: Session) -> bool:
        """Run the first turn; False when it failed."""
        try:
            if session.killed_at is not None and self._is_killed(session):
                self.counts["killed"] += 1
            elif session.killed_at is None:
                asyncio.run(self._turn(session, session.prompts[0]))
        except Exception as error:  # noqa: BLE001 - finding these is what this is for
            self.failures.append(describe(session, "run", error))
            return False
        return True

    async def _turn(self, session: Session, prompt: str, *, resume: bool = False) -> None:
        async with asyncio.timeout(_LIMIT_SECONDS):
            async with open_live(
                session.plan(str(self._folder)),
                store=self._store,
                project=self._project,
                session_id=f"session-{session.number}",
                resume=resume,
            ) as live:
                answer = await live.execute(prompt)
                check_texts(answer)
                context: Any = live.session.coordinator.get("context")
                check_texts(await context.get_messages())

    async def _replay(self, session: Session) -> None:
        reader = self._store.read(f"session-{session.number}")
        async with asyncio.timeout(_LIMIT_SECONDS):
            replayed = await replay(reader)
        assert not replayed.differences, str(replayed)[:500]

    def _is_killed(self, session: Session) -> bool:
        """Run the first turn in a process that is killed in it; False when it came to its end."""
        assert sys.platform != "win32", "Windows has no fork"
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(self._turn(session, session.prompts[0]))
            except BaseException:  # noqa: BLE001 - the process ends here, whatever it was
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return True
        # It never came to the place where it was to be killed; this process may, in a later turn.
        Path(session.config(str(self._folder))["killed"]).touch()
        assert status == 0, "the first turn failed in its own process"
        return False


def describe(session: Session, stage: str, error: BaseException) -> str:
    """Return a failure in one line."""
    text = " ".join(str(error).split())[:200]
    place = f" after a kill at {session.killed_at}" if session.killed_at else ""
    return f"session {session.number}: {stage}{place}: {type(error).__name__}: {ascii(text)}"


def run_on_files(sessions: list[Session], folder: Path) -> tuple[dict[str, int], list[str]]:
    """Run sessions, and return what was counted and what failed."""
    runs = FileRuns(folder)
    for session in sessions:
        runs.run(session)
    return dict(runs.counts), runs.failures
