"""The example that kills a worker does what it says it does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "survive_a_kill.py"


async def test_a_turn_whose_worker_is_killed_pays_once() -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("runs 3, workers lost 1, receipts ['paid']\n")
