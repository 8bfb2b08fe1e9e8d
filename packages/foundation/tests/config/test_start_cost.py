"""What a start pays for its configuration."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def test_settings_default_bundle_and_plan_cost_less_than_importing_yaml_and_a_half(
    home: Path, project: Path
) -> None:
    (home / "settings.yaml").write_text("session: {metadata: {a: 1}}", encoding="utf-8")
    rounds = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", MEASURE],
                cwd=project,
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            ).stdout
        )
        for _ in range(5)
    ]

    least_yaml = min(each[0] for each in rounds)
    least_ours = min(each[1] for each in rounds)
    assert least_ours < 1.5 * least_yaml
    heavy = {"asyncio", "difflib", "logging", "pydantic"}
    assert heavy.isdisjoint(rounds[0][2])
    # The kernel's root is imported for its version, and loads no file of the kernel.
    assert [name for name in rounds[0][2] if name.startswith("amplifier_core.")] == []
