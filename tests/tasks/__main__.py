"""Do the recorded tasks in each mode and count the questions: `python -m tasks --help`."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TypeAlias

from tasks.report import Report
from tasks.run_task import ANSWERING, MODES, Answering, Mode, TaskRun, run_task
from tasks.task import task_names
from tasks.user_tools import install_tools

Wanted: TypeAlias = tuple[str, Mode, Answering]


def main() -> int:
    """Run them; the exit code is 1 if a task was not done or could not be replayed."""
    parser = argparse.ArgumentParser(prog="python -m tasks", description=__doc__)
    parser.add_argument("--task", action="append", help="the beginning of a task's name; repeat it")
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("--answer", action="append", choices=ANSWERING)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="for homes and session logs; kept")
    parser.add_argument("--table", type=Path, help="where to write the tables, as Markdown")
    parser.add_argument("--records", type=Path, help="where to write each run, as JSON")
    options = parser.parse_args()
    beginnings = tuple(options.task or [""])
    names = [name for name in task_names() if name.startswith(beginnings)]
    with tempfile.TemporaryDirectory(prefix="tasks-", ignore_cleanup_errors=True) as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        wanted = list(product(names, options.mode or MODES, options.answer or ANSWERING))
        runs = _run_all(wanted, folder, options.jobs)
    report = Report(runs)
    text = f"{report.table()}\n\n{report.goals()}\n"
    _say(text)
    if options.table is not None:
        options.table.parent.mkdir(parents=True, exist_ok=True)
        options.table.write_text(text, "utf-8")
    if options.records is not None:
        options.records.parent.mkdir(parents=True, exist_ok=True)
        options.records.write_text(json.dumps([asdict(run) for run in runs], indent=1), "utf-8")
    wrong = [run for run in runs if run.problems]
    _say(f"{len(runs)} runs, {len(wrong)} of them wrong")
    return 1 if wrong else 0


def _run_all(wanted: list[Wanted], folder: Path, jobs: int) -> list[TaskRun]:
    tools = install_tools(folder / "tools")
    runs: list[TaskRun] = []
    # A process of their own: each run changes the environment and the working directory.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        started = {pool.submit(run_task, *each, folder, tools): each for each in wanted}
        for future in as_completed(started):
            run = future.result()
            runs.append(run)
            _tell(run)
    return runs


def _tell(run: TaskRun) -> None:
    _say(f"{run.task} {run.mode} {run.answering}: {len(run.questions)}")
    for question in run.questions:
        about = ", ".join(question.widenings) or "; ".join(question.reasons)
        word = "denied" if question.is_denial else "asked"
        _say(f"  {word} about {', '.join(question.tools)}: {about}")
    for problem in run.problems:
        _say(f"  WRONG: {problem}")


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a program talks to a terminal


if __name__ == "__main__":
    sys.exit(main())
