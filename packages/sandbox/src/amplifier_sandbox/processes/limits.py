"""The limits of a confined program, and the shell that sets them before the program starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SandboxError(Exception):
    """A program cannot be confined as asked; it was not started."""


# $0 is the number of folders that follow; each is a control group to enter.
_ENTER_GROUPS = (
    'n=$0; while [ "$n" -gt 0 ]; do echo 0 >"$1/cgroup.procs" || exit 126; '
    "shift; n=$((n-1)); done; "
)
_SHELL = "/bin/sh"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for one program and all its children; None is no limit."""

    # Bytes; with a control group for all processes together, else for each process.
    memory_bytes: int | None = 2 * 1024**3
    processes: int | None = 256
    # Seconds of processor time of each process.
    cpu_seconds: int | None = None
    # Bytes in the private temporary folder, which is in memory.
    temporary_bytes: int = 256 * 1024**2
    # Bytes of each file that is written to.
    file_bytes: int | None = None


def limited(
    argv: Sequence[str], limits: Limits, *, groups: Sequence[str], counts_memory: bool
) -> list[str]:
    """Return `argv` started by a shell that enters `groups` and sets the limits of a process.

    With `counts_memory` a group limits the memory. There is no limit for the address space then,
    which would also stop programs that only reserve memory.
    """
    settings = ["ulimit -c 0"]
    if limits.cpu_seconds is not None:
        settings.append(f"ulimit -t {limits.cpu_seconds}")
    if limits.file_bytes is not None:
        # Every shell that is started as `sh` counts in blocks of 512 bytes.
        settings.append(f"ulimit -f {limits.file_bytes // 512}")
    if limits.memory_bytes is not None and not counts_memory:
        settings.append(f"ulimit -v {limits.memory_bytes // 1024}")
    script = _ENTER_GROUPS + " && ".join(settings) + ' && exec "$@"'
    return [_SHELL, "-c", script, str(len(groups)), *groups, *argv]


def limited_processes(argv: Sequence[str], limits: Limits) -> list[str]:
    """Return `argv` started by a shell that limits the processes of its user, for use inside.

    Only for use without a control group: this limit does not apply to root, and outside of a user
    namespace it would count all processes of the user.
    """
    if limits.processes is None:
        return list(argv)
    count = limits.processes
    # The option for processes is -p in dash and busybox, -u in bash.
    script = f'{{ ulimit -p {count} 2>/dev/null || ulimit -u {count}; }} && exec "$@"'
    return [_SHELL, "-c", script, _SHELL, *argv]
