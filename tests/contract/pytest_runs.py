"""Run pytest in a process of its own, the way a module author does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path


class Outcome:
    """What a run of pytest printed, and how many tests ended in which way."""

    def __init__(self, output: str) -> None:
        self.output = output
        words = ("passed", "failed", "skipped", "error", "errors")
        counts = re.findall(r"(\d+) (\w+)", output.strip().rpartition("\n")[2])
        self.counts = {word.rstrip("s"): int(number) for number, word in counts if word in words}

    def __repr__(self) -> str:
        return self.output

    def of(self, word: str) -> int:
        """Give how many tests ended so."""
        return self.counts.get(word, 0)


def run_pytest(folder: Path, *arguments: str, with_asyncio: bool = True) -> Outcome:
    """Run pytest in `folder` with the kernel's plugin, and pytest-asyncio unless told otherwise."""
    plugins = ["amplifier_core.pytest_plugin", *(["pytest_asyncio.plugin"] if with_asyncio else [])]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers"]
    # Only these two: the other plugins of the repository would cost seconds per run.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, *(part for plugin in plugins for part in ("-p", plugin)), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    return Outcome(done.stdout)


def write_test(folder: Path, name: str, source: str) -> Path:
    """Write a test file into `folder` and give the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(textwrap.dedent(source), encoding="utf-8")
    return folder
