"""Commands that run after their call: their handles, their output, and their end."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from amplifier_core.effects import Effect
from amplifier_core.models import ToolResult
from amplifier_kit.tools import problems_in, tool_failure
from amplifier_sandbox.processes.live_output import Capture

logger = logging.getLogger(__name__)

# Long enough to see that a server does not start at all.
_FIRST_SECONDS = 1.0
_KEPT = 20


@dataclass
class Job:
    """One command in the background."""

    handle: str
    command: str
    captures: dict[str, Capture]
    reaches_outside: bool = False
    task: asyncio.Task[None] | None = None
    # How it ended, in words; empty while it runs.
    ending: str = ""

    def report(self) -> dict[str, Any]:
        """Return its state and what it wrote, shortened in the middle."""
        return {
            "job": self.handle,
            "state": self.ending or "running",
            **{name: capture.text() for name, capture in self.captures.items()},
        }


class Jobs:
    """The background commands of a session; they end with it."""

    def __init__(self, most: int) -> None:
        """At most `most` of them run at a time."""
        self._most = most
        self._jobs: dict[str, Job] = {}
        self._numbers = itertools.count(1)

    @property
    def is_full(self) -> bool:
        """Whether no further command may stay."""
        return sum(not each.ending for each in self._jobs.values()) >= self._most

    async def start(
        self,
        command: str,
        captures: dict[str, Capture],
        run: Callable[[], Awaitable[str]],
        *,
        reaches_outside: bool = False,
    ) -> Job:
        """Run a command until it ends by itself or is stopped; `run` returns how it ended.

        Returns after a moment, in which a command that fails at once has ended.
        """
        job = Job(f"job-{next(self._numbers)}", command, captures, reaches_outside)
        self._jobs[job.handle] = job
        self._forget_ended()

        async def watched() -> None:
            try:
                job.ending = await run()
            except asyncio.CancelledError:
                job.ending = "stopped"
                raise
            except Exception as error:
                # Nobody awaits this task, so what failed is told with the job.
                logger.exception("background command failed job=%s", job.handle)
                job.ending = f"failed: {error}"

        job.task = asyncio.create_task(watched())
        await asyncio.wait({job.task}, timeout=_FIRST_SECONDS)
        return job

    def get(self, handle: str) -> Job | None:
        """Return the job with this handle."""
        return self._jobs.get(handle)

    def all(self) -> list[Job]:
        """Return every job, the ended ones too."""
        return list(self._jobs.values())

    async def stop(self, job: Job) -> None:
        """End a job and everything that it started."""
        if job.task is not None:
            job.task.cancel()
            await asyncio.wait({job.task})

    async def close(self) -> None:
        """End all jobs."""
        for each in self.all():
            await self.stop(each)

    def _forget_ended(self) -> None:
        ended = [each.handle for each in self._jobs.values() if each.ending]
        for handle in ended[: max(0, len(self._jobs) - _KEPT)]:
            del self._jobs[handle]


class JobsInput(BaseModel):
    """What the model fills in."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    operation: Literal["list", "output", "stop"]
    job: str = ""


class JobsTool:
    """The tool `bash_jobs`: what runs in the background."""

    name = "bash_jobs"
    description = (
        "Commands that `bash` started with `background`: list them, read the output of one, or "
        "stop one. All of them end with the session."
    )
    # It reads, or ends what this session has started: to ask about that would protect nothing.
    effect: Effect = "pure"
    output_trusted = False
    deadline_seconds: float | None = 30.0
    input_schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "operation": {"type": "string", "enum": ["list", "output", "stop"]},
            "job": {"type": "string", "description": "The handle, for `output` and `stop`."},
        },
        "required": ["operation"],
        "additionalProperties": False,
    }

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def reaches_outside(self, tool_input: Any) -> bool:
        """Return whether a call may bring text from outside into the session."""
        return any(each.reaches_outside for each in self._jobs.all())

    async def execute(self, input: dict[str, Any]) -> ToolResult:  # noqa: A002 - contract name
        """Carry out one operation."""
        try:
            asked = JobsInput.model_validate(input)
        except ValidationError as error:
            return tool_failure(problems_in(error))
        if asked.operation == "list":
            listed = [
                {"job": each.handle, "state": each.ending or "running", "command": each.command}
                for each in self._jobs.all()
            ]
            return ToolResult(success=True, output=listed)
        job = self._jobs.get(asked.job)
        if job is None:
            known = ", ".join(each.handle for each in self._jobs.all()) or "none"
            return tool_failure(f"There is no job `{asked.job[:40]}`. Known: {known}.")
        if asked.operation == "stop":
            await self._jobs.stop(job)
        return ToolResult(success=True, output=job.report())
