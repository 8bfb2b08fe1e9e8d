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

    assert whole["exits"] == [0], done.stderr
    boundaries = whole["boundaries"]
    assert all(boundary in [run["boundary"] for run in runs] for boundary in boundaries)
    assert sum("tool:" in name for name, _ in boundaries) > 2
    killed = [run for run in runs if run["exits"] == [137, 0]]
    # Each name at least once, which includes every call of a model and of a tool.
    assert {run["boundary"][0] for run in killed} == {name for name, _ in boundaries}
    for run in runs:
        # A step that has ended before its turn looks is not waited for, so that the turn is parked
        # less often and does not come to the last boundaries of that name.
        assert run in killed or (run["exits"] == [0] and run["parks"] < whole["parks"]), run
        assert run["result"] == {"answers": ANSWERS, "steps": STEPS}, run
        # The one call that was under way may have been made again.
        assert run["models"] <= whole["models"] + 1, run
