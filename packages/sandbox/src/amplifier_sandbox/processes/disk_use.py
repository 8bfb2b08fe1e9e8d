"""Measures the disk space, memory and number of processes that a session's commands use."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from amplifier_sandbox.platforms.process_table import process_table


def use_of(programs: Collection[int]) -> tuple[int, int]:
    """Return the memory, in bytes, and the number of all processes at and below `programs`.

    Memory that processes share is counted for each of them, so the sum is never too small.

    Raises:
        OSError: the processes of this machine cannot be listed.
    """
    found = processes_below(programs)
    return sum(found.values()), len(found)


def processes_below(programs: Collection[int]) -> dict[int, int]:
    """Return the processes at and below `programs`, each with its memory in bytes.

    Raises:
        OSError: the processes of this machine cannot be listed.
    """
    table = process_table()
    children: dict[int, list[int]] = {}
    for number, entry in table.items():
        children.setdefault(entry.parent, []).append(number)
    below: dict[int, int] = {}
    found = [process for process in programs if process in table]
    while found:
        process = found.pop()
        below[process] = table[process].memory
        found += children.get(process, [])
    return below


# The largest reserve, as a fraction of the disk: one of 500 MB could never keep 1 GiB free.
_LARGEST_RESERVE = 20
# What a command may use after a limit was reached, so that `rm` works: names, a few blocks.
_SLACK_BYTES = 16 * 1024**2
_SLACK_FILES = 1_000


@dataclass(frozen=True, slots=True)
class DiskLimits:
    """Limits in bytes for all commands of a session together."""

    added_bytes: int = 10 * 1024**3
    free_bytes: int = 1024**3


@dataclass(frozen=True, slots=True)
class Space:
    """The space of several file systems together, and how many files can still be created."""

    used: int
    free: int
    free_files: int
    reserve: int
    reserve_files: int

    @classmethod
    def of(cls, paths: Sequence[Path], limits: DiskLimits) -> Space:
        """Measure each file system of `paths` once.

        Raises:
            OSError: a path cannot be measured.
        """
        each = [cls._of(path, limits) for path in _one_per_file_system(paths)]
        fullest = min(each, key=lambda space: space.free - space.reserve)
        fewest = min(each, key=lambda space: space.free_files - space.reserve_files)
        return cls(
            sum(space.used for space in each),
            fullest.free,
            fewest.free_files,
            fullest.reserve,
            fewest.reserve_files,
        )

    @classmethod
    def _of(cls, path: Path, limits: DiskLimits) -> Space:
        if sys.platform == "win32":
            raise OSError("the space of a disk is not measured on Windows")
        found = os.statvfs(path)
        block = found.f_frsize
        return cls(
            used=(found.f_blocks - found.f_bfree) * block,
            free=found.f_bavail * block,
            # A file system without a fixed number of files reports 0 for both.
            free_files=found.f_favail,
            reserve=min(limits.free_bytes, found.f_blocks * block // _LARGEST_RESERVE),
            reserve_files=found.f_files // _LARGEST_RESERVE,
        )


def _one_per_file_system(paths: Sequence[Path]) -> list[Path]:
    return list({path.stat().st_dev: path for path in paths}.values())


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one command may add; `is_used_up` if a limit was reached before it began."""

    added: int
    free: int
    free_files: int
    is_used_up: bool


class DiskUse:
    """Adds up by how much the file systems grow while commands of a session run.

    Writes of other programs at the same time are counted too; those between commands are not.
    """

    def __init__(self, paths: Sequence[Path], limits: DiskLimits) -> None:
        """`paths` are the folders that commands can write to."""
        self._paths = tuple(paths)
        self._limits = limits
        self._running = 0
        self._added_before = 0
        self._used_at_start = 0
        self._used_at_first: int | None = None

    def begin(self) -> Allowance:
        """Start to measure for a command; blocks while the file system answers.

        Raises:
            OSError: the disk cannot be measured.
        """
        space = self._measure()
        if self._used_at_first is None:
            self._used_at_first = space.used
        if self._running == 0:
            self._used_at_start = space.used
        self._running += 1
        added = self._added(space)
        is_used_up = (
            added > self._limits.added_bytes
            or space.free < space.reserve
            or space.free_files < space.reserve_files
        )
        return Allowance(
            max(self._limits.added_bytes, added + _SLACK_BYTES * is_used_up),
            min(space.reserve, space.free - _SLACK_BYTES * is_used_up),
            min(space.reserve_files, space.free_files - _SLACK_FILES * is_used_up),
            is_used_up,
        )

    def end(self) -> None:
        """Stop measuring for a command; what it added stays counted."""
        self._running -= 1
        if self._running == 0:
            try:
                self._added_before += self._measure().used - self._used_at_start
            except OSError:
                # The folder was removed, and takes no space.
                return

    def objection(self, allowance: Allowance) -> str | None:
        """Return which limit a running command has exceeded, in words; None if it has not."""
        try:
            space = self._measure()
        except OSError as error:
            return f"the disk cannot be measured ({error.strerror})"
        if self._added(space) > allowance.added:
            limit = f"{self._limits.added_bytes:,} bytes (`max_disk_bytes`)"
            return f"the commands of this session have added more than {limit} to the disk"
        if space.free < allowance.free:
            return f"less than {space.reserve:,} bytes are free on the disk (`keep_free_bytes`)"
        if space.free_files < allowance.free_files:
            return f"the disk has a place for {space.free_files:,} more files only"
        return None

    def _measure(self) -> Space:
        return Space.of(self._paths, self._limits)

    def _added(self, space: Space) -> int:
        """Return what commands have added, less what was removed since, by any program."""
        while_running = self._added_before
        if self._running:
            while_running += space.used - self._used_at_start
        since_first = space.used - (self._used_at_first or 0)
        return min(while_running, since_first)
