"""Whether a soak finds a worker that grows, and a short one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.soak import Sample, is_flat, rows, sample

TESTS = Path(__file__).parent.parent


def samples(memory: list[int], descriptors: int = 20) -> list[Sample]:
    return [Sample(each, descriptors, 10) for each in memory]


def test_memory_that_stays_is_flat() -> None:
    assert is_flat(samples([90_000, 91_000, 92_000] * 4), "memory_kib")


def test_memory_that_grows_from_third_to_third_is_not() -> None:
    growing = [90_000 + 2_000 * number for number in range(12)]
    assert not is_flat(samples(growing), "memory_kib")


def test_one_high_sample_is_not_a_growth() -> None:
    assert is_flat(samples([90_000] * 11 + [200_000]), "memory_kib")


def test_descriptors_that_leak_are_found() -> None:
    leaking = [Sample(90_000, 20 + number, 10) for number in range(12)]
    assert not is_flat(leaking, "descriptors")


def test_too_few_samples_tell_nothing() -> None:
    with pytest.raises(ValueError, match="too few"):
        is_flat(samples([90_000] * 3), "memory_kib")


def test_a_row_says_which_worker_has_grown() -> None:
    growing = samples([90_000 + 10_000 * number for number in range(6)])
    found = list(rows(1.0, 7, [samples([90_000] * 6), growing]))
    assert [(each[2], each[3]) for each in found if each[-1] == "NO"] == [(2, "memory_kib")]


def test_a_process_is_looked_at() -> None:
    seen = sample(os.getpid())
    assert seen.memory_kib > 1_000
    assert seen.descriptors > 0
    assert seen.threads > 0


@pytest.mark.fleet
def test_a_short_soak_runs_turns_and_says_what_its_worker_has() -> None:
    command = [sys.executable, "-m", "chaos.soak", "--minutes", "0.3", "--width", "2"]
    done = subprocess.run(
        command, cwd=TESTS, capture_output=True, text=True, timeout=150, check=False
    )
    lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
    assert [line[3] for line in lines[2:]] == ["memory_kib", "descriptors", "threads"], done.stderr
    assert int(lines[2][1]) > 0
