"""The matrix of attacks: a run that did not happen has not passed."""

from __future__ import annotations

from pathlib import Path

import pytest

import attacks_matrix
from amplifier_sandbox.platforms.users import is_administrator
from attacks_matrix import Row, counted, table
from matrix_machine import find_python, users

OUTPUT = """
=========================== short test summary info ===========================
FAILED tests/x.py::test_x - 3 passed in 1.00s
2 failed, 1,200 passed, 3 skipped, 1 error, 5 deselected in 12.50s (0:00:12)
  H2: 2 of 3
attacks blocked: 1,019 of 1,020 (the original: 3 of 40)
"""


def test_the_end_of_a_run_is_counted() -> None:
    row = counted(Row("3.12", "me", passed=1), OUTPUT.replace("1,200", "1200"), status=1)

    assert row == Row("3.12", "me", 1201, 3, 3, 1019, 1020)
    assert not row.is_good


@pytest.mark.parametrize(
    ("output", "status"),
    [("", 2), ("Killed", -9), ("no tests ran in 0.01s", 5), ("3 passed in 1.00s", 1)],
)
def test_a_run_that_ended_otherwise_is_not_good(output: str, status: int) -> None:
    assert not counted(Row("3.12", "me"), output, status).is_good


def test_a_run_without_a_failure_is_good() -> None:
    assert counted(Row("3.12", "me"), "3 passed, 1 skipped in 1.00s", status=0).is_good


def test_a_python_that_is_not_there_is_named_and_has_not_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)

    assert find_python("3.12") is None
    rows = attacks_matrix._on_one_python("3.12", tmp_path, tmp_path / "build", sample=True)

    assert [row.user for row in rows] == [user.name for user in users()]
    assert not any(row.is_good for row in rows)
    assert table(rows).count("not on this machine, so not tried") == len(rows)


def test_root_runs_the_tests_as_an_ordinary_user_first() -> None:
    found = users()

    assert found[-1].uid is None
    if is_administrator():
        assert [user.name for user in found] == ["nobody", "root"]
        assert found[0].uid != 0
