"""Sessions full of bytes that are not text are run, killed, resumed and replayed on every store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_TOOL = Path(__file__).parents[2] / "tools" / "fuzz_bytes.py"
_SEED = "20250101"


def _fuzz(store: str, cases: int, *more: str) -> tuple[int, dict[str, int], str]:
    """Run the tool in a process of its own, which it may fork; returns its status and its row."""
    command = [sys.executable, str(_TOOL), "--store", store, "--cases", str(cases)]
    done = subprocess.run(
        [*command, "--seed", _SEED, *more],
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    lines = done.stdout.splitlines()
    row = next((line for line in lines if line.startswith(f"| {store}")), None)
    assert row is not None, done.stdout + done.stderr
    names = ("sessions", "killed", "turns resumed", "replayed", "failures")
    counts = [int(cell.replace(",", "")) for cell in row.strip("| ").split(" | ")[1:6]]
    return done.returncode, dict(zip(names, counts, strict=True)), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("store", "cases"),
    [
        ("files", 30),
        pytest.param("files", 60, marks=pytest.mark.slow),
        pytest.param("sqlite", 60, marks=pytest.mark.slow),
        pytest.param("postgres", 60, marks=pytest.mark.fleet),
    ],
)
def test_no_text_ends_a_session(store: str, cases: int) -> None:
    status, counts, shown = _fuzz(store, cases)

    assert status == 0, shown
    assert counts["failures"] == 0
    assert counts["sessions"] == counts["turns resumed"] == cases
    assert counts["killed"] > 0
    assert counts["replayed"] == (cases if store == "files" else counts["killed"])


@pytest.mark.attack("review M5")
@pytest.mark.parametrize(
    ("store", "found"),
    [
        ("files", "resume: UnicodeEncodeError"),
        pytest.param("sqlite", "UnicodeEncodeError", marks=pytest.mark.slow),
        pytest.param("postgres", "turn 1: AssertionError", marks=pytest.mark.fleet),
    ],
)
def test_without_the_fix_the_generator_finds_sessions_that_cannot_continue(
    store: str, found: str
) -> None:
    status, counts, shown = _fuzz(store, 40, "--without-fix")

    assert status == 1
    assert counts["failures"] > 0
    assert found in shown
