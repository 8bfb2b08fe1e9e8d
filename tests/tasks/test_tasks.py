"""A part of the recorded tasks in every mode; `make tasks` does all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.report import GOALS, Report
from tasks.run_task import MODES, Question, TaskRun
from tasks.task import read_task, task_names

TESTS = Path(__file__).parent.parent
# A commit, an install, a server, a page and a sub-agent.
SAMPLE = ("01", "04", "06", "24", "25")


def test_thirty_tasks_are_recorded_and_each_can_be_told_from_one_that_was_not_done() -> None:
    tasks = [read_task(name) for name in task_names()]

    assert len(tasks) == 30
    assert all(task.done.strip() and task.prompt for task in tasks)
    assert all(any(call.expect for call in task.calls()) for task in tasks)


def test_the_report_counts_by_mode_and_answer_and_tells_widenings_from_other_questions() -> None:
    commit = Question(["bash"], ["it needs writing to /project/.git"])
    test = Question(["bash"], ["no rule matches, and the default is to ask"])
    report = Report(
        [
            TaskRun("01-a-b", "edits", "once", [test, test, test, commit]),
            TaskRun("01-a-b", "edits", "lasting", [test, commit]),
            TaskRun("01-a-b", "auto", "once", [commit]),
        ]
    )

    assert "| a b | – / – | 4 / 2 | 3 / 1 | 1 / – | write |" in report.table()
    assert "| `edits`: at most 3 | 0 of 1 | 1 of 1 |" in report.goals()
    assert "| `auto`: only widenings | 1 of 1 | 0 of 0 |" in report.goals()


def _questions(run: dict[str, Any]) -> list[Question]:
    return [Question(**each) for each in run["questions"]]


@pytest.mark.slow
def test_a_sample_is_done_in_every_mode_with_few_questions(tmp_path: Path) -> None:
    records = tmp_path / "records.json"
    chosen = [word for name in SAMPLE for word in ("--task", name)]
    # A process of its own: what the tasks install comes over the network, which tests do not use.
    done = subprocess.run(
        [sys.executable, "-m", "tasks", *chosen, "--answer", "lasting"]
        + ["--folder", str(tmp_path), "--records", str(records)],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    runs: list[dict[str, Any]] = json.loads(records.read_text("utf-8"))
    assert len(runs) == len(SAMPLE) * len(MODES)
    for run in runs:
        questions = _questions(run)
        widenings = [each for each in questions if each.widenings]
        if run["mode"] in GOALS:
            assert len(questions) <= GOALS[run["mode"]].most, run
            assert questions == widenings, run
    _replay(runs[0], tmp_path)


def _replay(run: dict[str, Any], folder: Path) -> None:
    """Let the command replay the log of a run."""
    home = folder / f"{run['task']}-{run['mode']}-{run['answering']}"
    done = subprocess.run(
        [sys.executable, "-m", "amplifier_cli", "session", "replay", run["session_id"]],
        cwd=home / "project",
        env={**os.environ, "HOME": str(home), "AMPLIFIER_HOME": str(home / ".amplifier")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "without a difference" in done.stdout
