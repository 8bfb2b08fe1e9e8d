"""Find, call and kill the programs that match lines."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from amplifier_module_files.tool_search.inputs import Grep
from amplifier_sandbox.own.programs import find_program
from amplifier_sandbox.platforms.signals import end_group

# How long to wait for a search that was stopped.
_PATIENCE_SECONDS = 2.0
_MATCHER = str(Path(__file__).with_name("matcher.py"))
# No configuration, no ignore rules, no preprocessor, no decoding: only lines of the given files.
# The size limits bound the memory of a hostile pattern.
_RIPGREP_OPTIONS = (
    *("--no-config", "--no-ignore", "--no-pre", "--no-search-zip", "--no-mmap", "--threads=1"),
    *("--color=never", "--no-heading", "--with-filename", "--null", "--line-number", "--column"),
    *("--text", "--encoding=none", "--crlf", "--regex-size-limit=10M", "--dfa-size-limit=10M"),
)
Result = TypeVar("Result")


def find_ripgrep(workspace: Path) -> str | None:
    """Return the path of `rg`, unless the session's tools could have written it."""
    return find_program("rg", workspace)


def command_for(asked: Grep, ripgrep: str | None) -> list[str]:
    """Return the command that finds lines in the files that are appended to it."""
    if ripgrep is None:
        if asked.literal:
            pattern = re.escape(asked.pattern)
        else:
            pattern = asked.pattern
        return [sys.executable, "-I", "-S", _MATCHER, pattern, "i" * asked.ignore_case]
    chosen = ["--fixed-strings"] * asked.literal + ["--ignore-case"] * asked.ignore_case
    return [ripgrep, *_RIPGREP_OPTIONS, *chosen, f"--regexp={asked.pattern}", "--"]


class Stop:
    """Stops a search in its thread, and kills the program that it waits for."""

    def __init__(self) -> None:
        self.is_set = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def set(self) -> None:
        """Stop the search immediately."""
        with self._lock:
            self.is_set = True
            if self._process is not None and self._process.returncode is None:
                end_group(self._process.pid)

    def start(self, command: list[str], fds: Collection[int]) -> subprocess.Popen[bytes]:
        """Start a program on open files, in its own process group."""
        with self._lock:
            self._process = subprocess.Popen(
                [*command, *(f"/dev/fd/{fd}" for fd in fds)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env={},
                pass_fds=fds,
                start_new_session=True,
            )
        # A stop that came before the process started has killed nothing.
        if self.is_set:
            self.set()
        return self._process


async def in_time(work: Callable[[Stop], Result], seconds: float) -> tuple[Result, bool]:
    """Run blocking work in a thread; return its result, and whether it finished in time."""
    stop = Stop()
    running = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        # Shielded: cancelling the future would not end the thread, but lose its partial result.
        async with asyncio.timeout(seconds):
            return await asyncio.shield(running), True
    except TimeoutError:
        stop.set()
        return await running, False
    finally:
        stop.set()
        await asyncio.wait([running], timeout=_PATIENCE_SECONDS)
