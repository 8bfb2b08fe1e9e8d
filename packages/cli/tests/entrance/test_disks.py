"""A home folder that cannot be written or has no space: three lines, and a doctor who says so."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from amplifier_cli.checkup import CHECKS
from amplifier_cli.failures import described, report


class Usage(NamedTuple):
    """What `shutil.disk_usage` returns."""

    total: int
    used: int
    free: int


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_an_error_of_the_disk_is_explained_without_a_traceback(
    capsys: pytest.CaptureFixture[str], number: int
) -> None:
    error = OSError(number, os.strerror(number), "/home/user/.amplifier")

    what, why, fix = described(error)
    report(error)

    assert what == "`/home/user/.amplifier` cannot be used."
    assert why == f"{os.strerror(number)}."
    assert fix == "amplifier doctor"
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_the_doctor_finds_a_home_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "home"))

    def access(path: Path, mode: int) -> bool:
        return path != tmp_path

    monkeypatch.setattr(os, "access", access)

    [finding] = CHECKS["disk"]()

    assert finding.level == "error"
    assert "cannot be written" in finding.told


def test_the_doctor_finds_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path))

    def full(path: Path) -> Usage:
        return Usage(total=1, used=1, free=0)

    monkeypatch.setattr(shutil, "disk_usage", full)

    finding, _ = CHECKS["disk"]()

    assert finding.level == "error"
    assert "0 B are free" in finding.told
