"""What the README says that an example prints, it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_first_example_prints_what_the_readme_says() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = re.search(r"It prints `(.*)`", readme)
    assert said is not None

    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "hello.py"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == f"{said[1]}\n"
