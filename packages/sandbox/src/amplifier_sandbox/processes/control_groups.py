"""Control groups, which limit the memory and number of all processes of a program together."""

from __future__ import annotations

import itertools
import logging
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from amplifier_sandbox.processes.limits import Limits, limited

logger = logging.getLogger(__name__)

_PREFIX = "amplifier-"
_MEMORY = "memory"
_PROCESSES = "pids"
# Files a limit is written to, as named by version 2 and by version 1.
_MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")
_SWAP_FILES = ("memory.swap.max", "memory.memsw.limit_in_bytes")
_PROCESS_FILES = ("pids.max",)
_KILL_COUNTS = ("memory.events", "memory.oom_control")
_HIERARCHY = "memory.use_hierarchy"
_CONTROLLERS = "cgroup.subtree_control"
_PROBE_SECONDS = 5

_numbers = itertools.count(1)
# Groups that still had a process when their program ended, to be removed later.
_leftovers: set[Path] = set()


class ControlGroup:
    """The folders in which one program's processes are counted."""

    __slots__ = ("folders",)

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self.folders = folders

    def limit(self, limits: Limits) -> None:
        """Limit what the processes may use together.

        Raises:
            OSError: a limit could not be set, so it is not in effect.
        """
        if limits.memory_bytes is not None:
            self._write(_MEMORY_FILES, limits.memory_bytes)
            # With swap, the limit would only move memory to disk. Not every kernel counts swap.
            with suppress(OSError):
                is_second = any((folder / _SWAP_FILES[0]).exists() for folder in self.folders)
                self._write(_SWAP_FILES, 0 if is_second else limits.memory_bytes)
        if limits.processes is not None:
            self._write(_PROCESS_FILES, limits.processes)

    def count_below(self) -> None:
        """Count the groups inside of this one for it, and each on its own as well."""
        for path in self._existing((_HIERARCHY,)):
            # Version 1 on older kernels; writing fails where a group above has it set already.
            if path.read_text("ascii").strip() != "1":
                path.write_text("1", "ascii")
        for path in self._existing((_CONTROLLERS,)):
            for controller in (_MEMORY, _PROCESSES):
                # Version 2 counts for this group in any case; if this fails, it is only unknown
                # which command was killed.
                with suppress(OSError):
                    path.write_text(f"+{controller}", "ascii")

    def memory_kills(self) -> int:
        """Return how many processes the kernel killed for lack of memory."""
        for path in self._existing(_KILL_COUNTS):
            with suppress(OSError):
                counts = dict(line.split() for line in path.read_text("ascii").splitlines())
                return int(counts.get("oom_kill", 0))
        return 0

    def is_empty(self) -> bool:
        """Whether no process is left in it."""
        return all(_is_empty(path) for path in self._existing(("cgroup.procs",)))

    def kill(self) -> None:
        """Kill every process of the group, if the kernel has `cgroup.kill`."""
        for path in self._existing(("cgroup.kill",)):
            with suppress(OSError):
                path.write_text("1", "ascii")

    def remove(self) -> None:
        """Remove the group, and earlier ones that still had a process when they ended."""
        for folder in (*self.folders, *_leftovers):
            try:
                folder.rmdir()
            except FileNotFoundError:
                _leftovers.discard(folder)
            except OSError:
                _leftovers.add(folder)
            else:
                _leftovers.discard(folder)

    def _existing(self, names: tuple[str, ...]) -> list[Path]:
        paths = [folder / name for folder in self.folders for name in names]
        return [path for path in paths if path.exists()]

    def _write(self, names: tuple[str, ...], value: int) -> None:
        for path in self._existing(names):
            path.write_text(str(value), "ascii")


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """Where groups can be created on this machine; without parents, nowhere."""

    parents: tuple[Path, ...] = ()
    counts_memory: bool = False
    counts_processes: bool = False

    @classmethod
    def detect(cls) -> ControlGroups:
        """Find the folders in which this process may create groups, and try it with one."""
        try:
            parents = {name: _parent_for(name) for name in (_MEMORY, _PROCESSES)}
        except OSError:
            logger.debug("control groups are not readable", exc_info=True)
            return cls()
        usable = tuple(dict.fromkeys(parent for parent in parents.values() if parent))
        groups = cls(usable, parents[_MEMORY] is not None, parents[_PROCESSES] is not None)
        if not usable or not groups._can_be_entered():
            return cls()
        groups._sweep()
        return groups

    def create(self, limits: Limits) -> ControlGroup:
        """Create a group for one program.

        Raises:
            OSError: it could not be created, or could not be limited.
        """
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        group = ControlGroup(tuple(parent / name for parent in self.parents))
        try:
            for folder in group.folders:
                folder.mkdir()
            group.limit(limits)
        except OSError:
            group.remove()
            raise
        return group

    def shared(self, limits: Limits) -> tuple[ControlGroup, ControlGroups]:
        """Create a group for several programs; return it, and where to create theirs inside.

        Raises:
            OSError: it could not be created, or could not be limited.
        """
        group = self.create(limits)
        try:
            group.count_below()
        except OSError:
            group.remove()
            raise
        inside = ControlGroups(group.folders, self.counts_memory, self.counts_processes)
        return group, inside

    def _can_be_entered(self) -> bool:
        limits = Limits()
        try:
            group = self.create(limits)
        except OSError:
            return False
        try:
            argv = limited(
                ["/bin/true"], limits, groups=[str(f) for f in group.folders], counts_memory=True
            )
            done = subprocess.run(
                argv, check=False, capture_output=True, env={}, timeout=_PROBE_SECONDS
            )
            return done.returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False
        finally:
            group.remove()

    def _sweep(self) -> None:
        """Remove the groups of processes that have ended."""
        for parent in self.parents:
            for folder in parent.glob(f"{_PREFIX}*-*"):
                owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
                if owner.isdigit() and not Path("/proc", owner).exists():
                    with suppress(OSError):
                        for inside in folder.glob(f"{_PREFIX}*-*"):
                            inside.rmdir()
                        folder.rmdir()


def _is_empty(processes: Path) -> bool:
    try:
        return not processes.read_bytes()
    except OSError:
        return True


def _parent_for(controller: str) -> Path | None:
    """Return the nearest folder in which `controller` would count a new group."""
    if controller == _PROCESSES:
        names = _PROCESS_FILES
    else:
        names = _MEMORY_FILES
    for folder in _folders_of_this_process(controller):
        probe = folder / f"{_PREFIX}{os.getpid()}-probe-{controller}"
        with suppress(OSError):
            probe.mkdir()
            try:
                if any(os.access(probe / name, os.W_OK) for name in names):
                    return folder
            finally:
                probe.rmdir()
    return None


def _folders_of_this_process(controller: str) -> Iterator[Path]:
    """Yield the group of this process and those above it, in the order of the mounts."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines()]
    for mount in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        before, _, after = mount.partition(" - ")
        root, point = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        for _, controllers, path in own:
            is_first = kind == "cgroup" and controller in controllers.split(",")
            is_here = is_first and controller in options.split(",")
            if is_here or (kind == "cgroup2" and not controllers):
                inside = path.removeprefix(root.rstrip("/")).strip("/")
                group = Path(point) / inside
                yield group
                yield from (above for above in group.parents if above.is_relative_to(point))
