"""The resources that all commands of a session and its sub-agents may use together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from amplifier_sandbox.processes.control_groups import ControlGroup
from amplifier_sandbox.processes.disk_use import Allowance, DiskLimits, DiskUse, use_of
from amplifier_sandbox.processes.limits import Limits, SandboxError
from amplifier_sandbox.processes.program import Watch
from amplifier_sandbox.processes.sandbox import Sandbox
from amplifier_sandbox.processes.workspace import checked_workspace

Counting = Literal["control group", "shares"]

_LOOK_SECONDS = 0.25
# Without control groups each command has a fixed share of the memory: halves, because with eighths
# many programs could not reserve what they need to start.
_MOST_SHARES = 2


COUNTING_IN_WORDS: dict[Counting, str] = {
    "control group": "the memory and the processes of all commands of a session are counted "
    "together, by a control group",
    "shares": "there are no control groups for memory and processes: two commands of a session run "
    "at a time, each with half of the limits, and what they use is added up four times a second",
}


def counting_of(sandbox: Sandbox) -> Counting:
    """Return how the commands of a session are counted together in this sandbox."""
    groups = sandbox.groups
    if groups.counts_memory and groups.counts_processes:
        return "control group"
    return "shares"


@dataclass(frozen=True, slots=True)
class Admission:
    """A command that may start now: its sandbox, its limits, and its watch."""

    sandbox: Sandbox
    limits: Limits
    watch: Watch
    is_disk_used_up: bool
    waited_seconds: float


class SessionBounds:
    """Admits commands, so that all running ones share one limit.

    With control groups, every command runs inside of one group for the session, and the kernel
    counts. Without, each command has a share of the limits, few run at a time, and their use is
    measured and added up.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        limits: Limits,
        disk: DiskLimits,
        parallel_commands: int,
        writable: Sequence[str | Path] = (),
    ) -> None:
        """`writable` are folders besides the workspace that commands can write to."""
        self._sandbox = sandbox
        self._limits = limits
        self._disk_limits = disk
        self._writable = [Path(each) for each in writable]
        # By file system, because sub-agents may have workspaces of their own.
        self._disks: dict[int, DiskUse] = {}
        self._group: ControlGroup | None = None
        self._inside: Sandbox | None = None
        self._programs: set[int] = set()
        self._running = 0
        self.counting: Counting = counting_of(sandbox)
        self.parallel_commands = parallel_commands
        if self.counting == "shares":
            self.parallel_commands = min(parallel_commands, _MOST_SHARES)
        self._slots = asyncio.Semaphore(self.parallel_commands)

    @asynccontextmanager
    async def admit(
        self,
        limits: Limits,
        workspace: str | Path,
        seconds: float,
        home: Path | None = None,
    ) -> AsyncGenerator[Admission]:
        """Wait until the command may start; `limits` are its own, which apply as well.

        `home` is the lasting home of the command, which counts as its disk space.

        Raises:
            SandboxError: other commands did not end within `seconds`, or the session's group
                could not be made.
            OSError: the disk cannot be measured.
        """
        asked_at = time.monotonic()
        await self._wait_for_slot(seconds)
        self._running += 1
        try:
            disk = self._disk_of(checked_workspace(workspace), home)
            sandbox = self._counted_together()
            allowance = disk.begin()
            try:
                yield Admission(
                    sandbox,
                    self._share_of(limits, allowance),
                    lambda pid: self._watch(pid, disk, allowance),
                    allowance.is_used_up,
                    time.monotonic() - asked_at,
                )
            finally:
                disk.end()
        finally:
            self._running -= 1
            if self._running == 0:
                self._remove_group()
            self._slots.release()

    async def _wait_for_slot(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise SandboxError(
                f"{self.parallel_commands} other commands of this session still ran after "
                f"{seconds:g} s, the most that may run at a time; repeat it when they have ended"
            ) from None

    def _counted_together(self) -> Sandbox:
        """Return the sandbox that runs commands inside of the session's group, if there is one."""
        if self._inside is None:
            groups = self._sandbox.groups
            if groups.parents:
                try:
                    self._group, groups = groups.shared(self._limits)
                except OSError as error:
                    raise SandboxError(
                        f"the commands cannot be limited together: {error}"
                    ) from error
            self._inside = replace(self._sandbox, groups=groups)
        return self._inside

    def _remove_group(self) -> None:
        """Remove the group between commands, because a session may end without a cleanup."""
        if self._group is not None:
            self._group.remove()
        self._group = None
        self._inside = None

    def _disk_of(self, workspace: Path, home: Path | None) -> DiskUse:
        device = workspace.stat().st_dev
        if device not in self._disks:
            homes = [] if home is None else [home]
            self._disks[device] = DiskUse([workspace, *self._writable, *homes], self._disk_limits)
        return self._disks[device]

    def _share_of(self, limits: Limits, allowance: Allowance) -> Limits:
        if allowance.is_used_up:
            # Not refused: a command that can write no file can still delete some.
            largest = 0
        else:
            largest = self._disk_limits.added_bytes
        limits = replace(limits, file_bytes=largest)
        if self.counting == "control group":
            return limits
        groups = self._sandbox.groups
        among = self.parallel_commands
        memory = limits.memory_bytes
        processes = limits.processes
        if memory is not None and not groups.counts_memory:
            limits = replace(
                limits,
                memory_bytes=memory // among,
                temporary_bytes=limits.temporary_bytes // among,
            )
        if processes is not None and not groups.counts_processes:
            limits = replace(limits, processes=processes // among)
        return limits

    async def _watch(self, program: int, disk: DiskUse, allowance: Allowance) -> str:
        """Measure the commands until they exceed a limit; return which one."""
        self._programs.add(program)
        try:
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                reason = disk.objection(allowance)
                if reason is None and self.counting == "shares":
                    reason = await asyncio.to_thread(self._objection_to_use)
                if reason is not None:
                    return reason
        finally:
            self._programs.discard(program)

    def _objection_to_use(self) -> str | None:
        memory, processes = use_of(tuple(self._programs))
        if self._limits.memory_bytes is not None and memory > self._limits.memory_bytes:
            limit = f"{self._limits.memory_bytes:,} bytes of memory (`memory_bytes`)"
            return f"the commands of this session use more than {limit} together"
        if self._limits.processes is not None and processes > self._limits.processes:
            limit = f"{self._limits.processes:,} processes (`processes`)"
            return f"the commands of this session have more than {limit} together"
        return None
