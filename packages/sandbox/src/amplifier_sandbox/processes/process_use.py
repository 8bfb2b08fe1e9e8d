"""How much memory and how many processes some programs use, counted without a control group."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/*/stat after the name: the parent, and the pages in memory.
_PARENT = 1
_PAGES = 21


def use_of(programs: Collection[int]) -> tuple[int, int]:
    """Return the memory, in bytes, and the number of all processes at and below `programs`.

    Memory that processes share is counted for each of them, so the sum is never too small.
    """
    pages: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for folder in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, no need for paths
        if not folder.isdigit():
            continue
        with suppress(OSError, ValueError):
            stat = Path("/proc", folder, "stat").read_bytes()
            # The name of a program may have spaces and brackets in it; what follows it has none.
            fields = stat[stat.rindex(b")") + 2 :].split()
            pages[int(folder)] = int(fields[_PAGES])
            children.setdefault(int(fields[_PARENT]), []).append(int(folder))
    memory = 0
    count = 0
    found = [process for process in programs if process in pages]
    while found:
        process = found.pop()
        memory += pages[process] * _PAGE_BYTES
        count += 1
        found += children.get(process, [])
    return memory, count
