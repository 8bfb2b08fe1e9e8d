"""What a start pays for its configuration."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

# Processor time, so that other work on the machine counts little; YAML is the yardstick, because
# a slow machine is slow for both. Paths and dataclasses every app has anyway.
MEASURE = """
import time
start = time.process_time()
import yaml
yaml_cost = time.process_time() - start
import dataclasses, pathlib
start = time.process_time()
from pathlib import Path
from amplifier_foundation.bundles import compile_bundle, default_bundle
from amplifier_foundation.settings import load_settings
from amplifier_foundation.trust import Trust
project = Path.cwd()
settings = load_settings(project, trusted=Trust().status(project).trusted)
compile_bundle(default_bundle(settings), settings)
done = time.process_time()
import json, sys
print(json.dumps([yaml_cost, done - start, sorted(sys.modules)]))
"""


# The least of several rounds is what the work costs; a busy machine needs more of them to show it.
FEWEST_ROUNDS = 5
MOST_ROUNDS = 30


class Round(NamedTuple):
    """What importing YAML cost, what ours cost, and the modules that were loaded."""

    yaml: float
    ours: float
    modules: list[str]


def measure(project: Path) -> Round:
    """Start a process that measures itself."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        cwd=project,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Round(*json.loads(done.stdout))


def test_settings_default_bundle_and_plan_cost_less_than_importing_yaml_twice(
    home: Path, project: Path
) -> None:
    (home / "settings.yaml").write_text("session: {metadata: {a: 1}}", encoding="utf-8")
    rounds = [measure(project) for _ in range(FEWEST_ROUNDS)]

    def is_cheap() -> bool:
        return min(each.ours for each in rounds) < 2 * min(each.yaml for each in rounds)

    while not is_cheap() and len(rounds) < MOST_ROUNDS:
        rounds.append(measure(project))

    assert is_cheap()
    heavy = {"asyncio", "difflib", "logging", "pydantic", "urllib.parse"}
    if sys.version_info < (3, 13):
        heavy.remove("urllib.parse")  # `pathlib` itself loads it there
    assert heavy.isdisjoint(rounds[0].modules)
    # The kernel's root is imported for its version, and loads no file of the kernel.
    assert [name for name in rounds[0].modules if name.startswith("amplifier_core.")] == []
