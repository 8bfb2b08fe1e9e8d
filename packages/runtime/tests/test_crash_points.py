"""The process is killed at every boundary of one turn in sequence; each time the turn completes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "crash_program.py"
AT_ONCE = 4


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming"])
def test_killed_at_every_boundary_the_turn_completes_with_the_same_result(
    new_url: Callable[[], str], tmp_path: Path, loop: str
) -> None:
    urls = [new_url() for _ in range(AT_ONCE)]
    command = [sys.executable, str(PROGRAM), str(tmp_path), loop, *urls]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines()]

    reached = [run["killed"] for run in runs]
    assert {"claimed", "begun", "begin pay", "end pay", "before finish", "after finish"} <= set(
        reached
    )
    for kind, count in (("llm:", 2), ("tool:", 3)):
        for side in ("before", "after"):
            assert sum(name.startswith(f"{side} {kind}") for name in reached) == count
    for run in runs:
        assert run["exit"] == [137, 0], run
        assert run["result"]["answer"] == "price 42, paid", run
        assert run["repeated"] == 0, run
        assert run["pay"] == 1, run
        assert run["result"]["adds_up"], run
        assert run["result"]["differences"] == 0, run
    _check_logs(runs)


def _check_logs(runs: list[dict[str, Any]]) -> None:
    """The log of a turn says the same wherever its worker was killed, once each."""
    logs = Counter(tuple(_lasting(run["result"]["kinds"])) for run in runs)
    usual = logs.most_common(1)[0][0]
    for run in runs:
        # A turn whose payment became unknown checks it, and so says more.
        if "tool:outcome_unknown" not in run["result"]["kinds"]:
            assert tuple(_lasting(run["result"]["kinds"])) == usual, run


def _lasting(kinds: list[str]) -> list[str]:
    return [each for each in kinds if each not in ("turn:resumed", "log.superseded")]
