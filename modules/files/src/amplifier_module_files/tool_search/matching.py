"""Find lines in files that are already open, one batch at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

from amplifier_module_files.descriptors import SEARCHES, is_out_of_descriptors
from amplifier_module_files.patterns import PatternError
from amplifier_module_files.tool_search.config import SearchConfig
from amplifier_module_files.tool_search.programs import Stop
from amplifier_module_files.walk import File
from amplifier_sandbox.files.names import RefusedError, shown
from amplifier_sandbox.files.rooted import Root

# Each file of a batch is an open descriptor, and all searches share a few hundred.
_BATCH = 200
_HEAD_BYTES = 8_192
_LONGEST_LINE = 300
_LONGEST_COMPLAINT = 1_000


class Matching:
    """Passes files to a program; counts the matches in each, and keeps the first lines."""

    def __init__(self, root: Root, command: list[str], settings: SearchConfig) -> None:
        self._root = root
        self._command = command
        self._settings = settings
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()

    def search(self, files: Iterator[File], stop: Stop) -> None:
        """Search all files, or as many as there is time for; blocks. Raises PatternError."""
        while not stop.is_set:
            with (
                SEARCHES.take(_BATCH, lambda: stop.is_set) as most,
                ExitStack() as batch,
            ):
                opened = self._open(files, batch, most)
                if not opened:
                    return
                self._search_batch(opened, stop)

    def _open(self, files: Iterator[File], batch: ExitStack, most: int) -> dict[int, str]:
        opened: dict[int, str] = {}
        while len(opened) < most and (file := next(files, None)) is not None:
            try:
                # The program gets descriptors, not paths: a path could be swapped for a link out
                # of the workspace after it was checked.
                fd = self._root.open_read(file.name)
            except (OSError, RefusedError) as error:
                # Not the file's fault: reported as unreadable, it would be missing unnoticed.
                if isinstance(error, OSError) and is_out_of_descriptors(error):
                    raise
                self.left_out["unreadable"] += 1
                continue
            reason = self._reason_against(fd)
            if reason is None:
                opened[fd] = shown(file.name)
                batch.callback(os.close, fd)
            else:
                self.left_out[reason] += 1
                os.close(fd)
        return opened

    def _reason_against(self, fd: int) -> str | None:
        limit = self._settings.max_file_bytes
        try:
            if os.fstat(fd).st_size > limit:
                return f"above {limit:,} bytes"
            head = os.read(fd, _HEAD_BYTES)
            # On macOS the program that is given the descriptor reads on from this place.
            os.lseek(fd, 0, os.SEEK_SET)
            if b"\0" in head:
                return "binary"
            return None
        except OSError:
            return "unreadable"

    def _search_batch(self, opened: dict[int, str], stop: Stop) -> None:
        with stop.start(self._command, opened) as process:
            for line in process.stdout or ():
                # A killed program may leave half a line.
                if line.endswith(b"\n"):
                    self._keep(line.rstrip(b"\r\n"), opened)
            complaint = process.stderr.read() if process.stderr else b""
        if process.returncode not in (0, 1) and not stop.is_set:
            text = complaint.decode(errors="replace").strip()[-_LONGEST_COMPLAINT:]
            raise PatternError(text or f"the program ended with {process.returncode}.")

    def _keep(self, line: bytes, opened: dict[int, str]) -> None:
        path, _, rest = line.partition(b"\0")
        number, column, text = rest.split(b":", 2)
        name = opened[int(path.rpartition(b"/")[2])]
        self.counts[name] += 1
        if len(self.lines) < self._settings.max_results:
            self.lines.append(f"{name}:{int(number)}:{_cut(text, int(column) - 1)}")


def _cut(line: bytes, at: int) -> str:
    """Return a part of a long line, with the match in it."""
    if len(line) <= _LONGEST_LINE:
        return line.decode(errors="replace")
    start = max(0, min(at - _LONGEST_LINE // 3, len(line) - _LONGEST_LINE))
    part = line[start : start + _LONGEST_LINE].decode(errors="ignore")
    return f"{'...' * (start > 0)}{part}{'...' * (start + _LONGEST_LINE < len(line))}"
