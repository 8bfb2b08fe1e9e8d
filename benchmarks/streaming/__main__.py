"""The command: measure, print the figure, fail when it misses the bar."""

from __future__ import annotations

import asyncio
import os
import platform
import sys

from benchmarks.streaming.measure import TOKENS, measure

if sys.platform == "win32":
    raise SystemExit("Windows does not tell the load of the machine; run the benchmark in WSL.")

BAR = 5.0
"""Microseconds per token that the loop and the hooks may add for one subscriber."""


def main() -> int:
    """Run the benchmark; the exit code is the verdict."""
    figure = asyncio.run(measure())
    load = os.getloadavg()[0]
    verdict = "ok" if figure.over_bare <= BAR else "MISSED"
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    print(f"{TOKENS:,} tokens: {figure.loop:.2f} us each through the loop, {figure.bare:.2f} bare")
    print(f"over bare: {figure.over_bare:.2f} us, bar {BAR:g} us: {verdict}")
    return 0 if verdict == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
