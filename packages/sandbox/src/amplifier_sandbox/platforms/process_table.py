"""All processes of the machine: who started each, and how much memory it has."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["ProcessEntry", "has_proc", "process_table"]

# Fields of /proc/*/stat after the name: the parent, and the pages in memory.
_PARENT = 1
_PAGES = 21
_SECONDS = 10


class ProcessEntry(NamedTuple):
    """One process; `memory` is in bytes, with what it shares with others."""

    parent: int
    memory: int


def process_table() -> dict[int, ProcessEntry]:
    """Return every process by its number.

    Raises:
        OSError: this platform does not tell.
    """
    if sys.platform == "win32":
        raise OSError("the processes of Windows cannot be listed here")
    return _of_proc() if has_proc() else _of_ps()


def has_proc() -> bool:
    """Whether the system shows its processes as files, as Linux does."""
    return os.path.isdir("/proc/self")  # noqa: PTH112 - four times a second


def _of_proc() -> dict[int, ProcessEntry]:
    assert sys.platform != "win32"
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    found: dict[int, ProcessEntry] = {}
    for folder in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, no need for paths
        if not folder.isdigit():
            continue
        with suppress(OSError, ValueError):
            stat = Path("/proc", folder, "stat").read_bytes()
            # The name of a program may have spaces and brackets in it; the later fields do not.
            fields = stat[stat.rindex(b")") + 2 :].split()
            found[int(folder)] = ProcessEntry(
                int(fields[_PARENT]), int(fields[_PAGES]) * page_bytes
            )
    return found


def _of_ps() -> dict[int, ProcessEntry]:
    """Ask `ps`, whose list has the resident memory in units of 1,024 bytes."""
    try:
        done = subprocess.run(
            ["/bin/ps", "-axo", "pid=,ppid=,rss="],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={},
            timeout=_SECONDS,
            check=True,
        )
    except subprocess.SubprocessError as error:
        raise OSError(f"the processes cannot be listed: {error}") from error
    found: dict[int, ProcessEntry] = {}
    for line in done.stdout.splitlines():
        number, parent, kilobytes = line.split()
        found[int(number)] = ProcessEntry(int(parent), int(kilobytes) * 1_024)
    return found
