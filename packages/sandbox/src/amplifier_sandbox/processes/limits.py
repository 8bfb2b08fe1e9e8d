"""What a contained program may use up, and the shell that says so before the program starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SandboxError(Exception):
    """A program cannot be contained as asked; it was not started."""


# $0 is the number of folders that follow; each is a control group to enter.
_ENTER_GROUPS = (
    'n=$0; while [ "$n" -gt 0 ]; do echo 0 >"$1/cgroup.procs" || exit 126; '
    "shift; n=$((n-1)); done; "
)
_SHELL = "/bin/sh"


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds for one program and all its children; None is no bound."""

    # Bytes; all processes together with a control group, each process for itself without.
    memory_bytes: int | None = 2 * 1024**3
    processes: int | None = 256
    # Seconds of processor time of each process.
    cpu_seconds: int | None = None
    # Bytes in the private temporary folder, which lives in memory.
    temporary_bytes: int = 256 * 1024**2
    # Bytes of each file that is written to.
    file_bytes: int | None = None


def limited(
    argv: Sequence[str], limits: Limits, *, groups: Sequence[str], counts_memory: bool
) -> list[str]:
    """Return `argv` behind a shell that enters `groups` and sets what holds for each process.

    `counts_memory` says that a group limits the memory: an address space limit, which programs
    that only reserve memory run into, is then not needed.
    """
    settings = ["ulimit -c 0"]
    if limits.cpu_seconds is not None:
        settings.append(f"ulimit -t {limits.cpu_seconds}")
    if limits.file_bytes is not None:
        # In blocks of 512 bytes for every shell that is called `sh`.
        settings.append(f"ulimit -f {limits.file_bytes // 512}")
    if limits.memory_bytes is not None and not counts_memory:
        settings.append(f"ulimit -v {limits.memory_bytes // 1024}")
    script = _ENTER_GROUPS + " && ".join(settings) + ' && exec "$@"'
    return [_SHELL, "-c", script, str(len(groups)), *groups, *argv]


def limited_processes(argv: Sequence[str], limits: Limits) -> list[str]:
    """Return `argv` behind a shell that limits the processes of its user, for use inside.

    Only where no control group counts them: the limit does not bind root, and outside a user
    namespace it would count every process the user has.
    """
    if limits.processes is None:
        return list(argv)
    count = limits.processes
    # dash and busybox say -p for processes, bash says -u.
    script = f'{{ ulimit -p {count} 2>/dev/null || ulimit -u {count}; }} && exec "$@"'
    return [_SHELL, "-c", script, _SHELL, *argv]
