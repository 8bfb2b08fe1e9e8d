"""A recipe with a gate, killed at every boundary of its turns: each step is done once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PROGRAM = Path(__file__).parent / "recipe_crash_program.py"
AT_ONCE = 4
ANSWERS = ["It waits for an approval.", "Done. Done. Done."]
STEPS = ["Check. done", "Gather. done", "Write. done"]


def test_a_recipe_that_is_killed_at_every_boundary_does_each_step_once(
    new_url: Callable[[], str], tmp_path: Path
) -> None:
    urls = [new_url() for _ in range(AT_ONCE)]
    command = [sys.executable, str(PROGRAM), str(tmp_path), *urls]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr
    whole, *runs = (json.loads(line) for line in done.stdout.splitlines())

    assert len(runs) == whole["boundaries"]
    assert sum("tool:" in run["killed"] for run in runs) > 2
    for run in runs:
        # A boundary that this run did not come to was not killed at.
        assert run["exit"] == [137, 0], run
        assert run["result"] == {"answers": ANSWERS, "steps": STEPS}, run
        # The one call that was under way may have been made again.
        assert run["models"] <= whole["models"] + 1, run
