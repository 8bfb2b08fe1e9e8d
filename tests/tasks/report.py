"""The table of a run: how many questions each task took, by mode and by how they were answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.run_task import ANSWERING, MODES, Answering, Mode, TaskRun


class Goal(NamedTuple):
    """How often a mode may ask about one task at most."""

    most: int


GOALS: dict[Mode, Goal] = {"edits": Goal(3), "auto": Goal(1)}
_NONE = "–"


class Report:
    """The runs of some tasks."""

    def __init__(self, runs: Sequence[TaskRun]) -> None:
        self._runs = {(run.task, run.mode, run.answering): run for run in runs}
        self._tasks = sorted({run.task for run in runs})

    def table(self) -> str:
        """Return a Markdown table; a cell is the number for `once`, then for `lasting`."""
        lines = [
            "| task | `ask` | `edits` | of them no widening | `auto` | about |",
            "|---|---|---|---|---|---|",
        ]
        for task in self._tasks:
            lines.append(self._line([task], task.partition("-")[2].replace("-", " ")))
        lines.append(self._line(self._tasks, "all"))
        return "\n".join(lines)

    def goals(self) -> str:
        """Return for each goal how many tasks reach it, by answer."""
        lines = ["| goal | answered once | answered with what lasts |", "|---|---|---|"]
        for mode, goal in GOALS.items():
            counted = self._reached(mode, lambda run, most=goal.most: len(run.questions) <= most)
            lines.append(f"| `{mode}`: at most {goal.most} | {counted} |")
            counted = self._reached(mode, lambda run: not run.beyond_widenings)
            lines.append(f"| `{mode}`: only widenings | {counted} |")
        return "\n".join(lines)

    def _reached(self, mode: Mode, is_reached: Callable[[TaskRun], bool]) -> str:
        cells: list[str] = []
        for answering in ANSWERING:
            runs = [self._runs.get((task, mode, answering)) for task in self._tasks]
            known = [run for run in runs if run is not None]
            cells.append(f"{sum(map(is_reached, known))} of {len(known)}")
        return " | ".join(cells)

    def _line(self, tasks: Sequence[str], title: str) -> str:
        cells = [title]
        for mode in MODES:
            cells.append(self._cell(tasks, mode, lambda run: len(run.questions)))
            if mode == "edits":
                cells.append(self._cell(tasks, mode, lambda run: len(run.beyond_widenings)))
        cells.append(self._about(tasks) if len(tasks) == 1 else "")
        return f"| {' | '.join(cells)} |"

    def _cell(self, tasks: Sequence[str], mode: Mode, count: Callable[[TaskRun], int]) -> str:
        def shown(answering: Answering) -> str:
            runs = [self._runs.get((task, mode, answering)) for task in tasks]
            known = [run for run in runs if run is not None]
            return str(sum(map(count, known))) if known else _NONE

        return " / ".join(map(shown, ANSWERING))

    def _about(self, tasks: Sequence[str]) -> str:
        found: dict[str, None] = {}
        for task in tasks:
            for answering in ANSWERING:
                run = self._runs.get((task, "auto", answering))
                for question in run.questions if run is not None else ():
                    found |= dict.fromkeys(question.widenings or question.tools)
        return ", ".join(found)
