"""A program that finds lines if ripgrep is not installed, with the output format of ripgrep.

A hostile pattern can keep `re` busy for years, and a thread cannot be interrupted; a process can
be killed. It is started by path, because importing its package would load what it does not need.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if sys.platform != "win32":
    import resource

    LIMITS = {resource.RLIMIT_DATA: 512 << 20, resource.RLIMIT_CPU: 600, resource.RLIMIT_CORE: 0}


def main(pattern: str, ignore_case: str, *paths: str) -> int:
    """Write `path NUL line:column:text` for every line that matches; the column is in bytes."""
    if sys.platform == "win32":
        sys.stderr.write("Windows has no limits for a process that searches")
        return 2
    for limit, value in LIMITS.items():
        resource.setrlimit(limit, (value, value))
    try:
        search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    except (re.error, OverflowError, RecursionError) as error:
        sys.stderr.write(f"regex parse error: {error}")
        return 2
    for path in paths:
        for number, line in enumerate(Path(path).read_bytes().removesuffix(b"\n").split(b"\n"), 1):
            text = line.removesuffix(b"\r").decode(errors="surrogateescape")
            found = search(text)
            if found is not None:
                column = len(text[: found.start()].encode(errors="surrogateescape")) + 1
                sys.stdout.buffer.write(f"{path}\0{number}:{column}:".encode() + line + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
