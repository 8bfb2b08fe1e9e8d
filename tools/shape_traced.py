"""Runs a program, and writes which functions of the checkout it entered.

Usage: shape_traced.py ROOT REPORT MODULE:CLASS [-m] PROGRAM ARGUMENT...
The class has the method `execute` that is the turn.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import inspect
import json
import runpy
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

# Where a prompt leads to: the model, a tool and the log. Of each, the first time in the turn.
_ENDS = (
    ("provider_mock", ("complete", "stream")),
    ("tool_filesystem", ("execute",)),
    ("store/writer", ("append",)),
)


class Tracer:
    """Notes the functions that are entered, and the files on the stack where a prompt leads to."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._files: dict[CodeType, str | None] = {}
        self.is_in_turn = False
        self.entered: dict[str, set[CodeType]] = {"whole": set(), "turn": set()}
        self.spine: dict[str, None] = {}
        self._missing = list(_ENDS)
        self._origins: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Be told of what the interpreter does."""
        code = frame.f_code
        file = self._file(code)
        if event != "call" or file is None:
            return
        self.entered["whole"].add(code)
        if self.is_in_turn:
            self.entered["turn"].add(code)
            self._look_for_end(frame, file, code.co_name)

    def remember(self, task: Any) -> None:
        """Note where a task was made: its stack begins anew."""
        self._origins[task] = self._stack(inspect.currentframe())

    def report(self) -> dict[str, Any]:
        """Return the files with their functions, and the spine."""
        counts = {
            part: dict(Counter(str(self._file(code)) for code in codes))
            for part, codes in self.entered.items()
        }
        return {"entered": counts, "spine": list(self.spine)}

    def _look_for_end(self, frame: FrameType, file: str, name: str) -> None:
        for end in self._missing:
            part, names = end
            if part in file and name in names:
                self._missing.remove(end)
                self.spine |= dict.fromkeys(self._stack(frame))
                return

    def _stack(self, frame: FrameType | None) -> list[str]:
        """Return the files of the checkout from the outermost call to this one."""
        files: list[str] = []
        while frame is not None:
            file = self._file(frame.f_code)
            if file is not None:
                files.append(file)
            frame = frame.f_back
        files.reverse()
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return files
        return [*self._origins.get(task, []), *files] if task is not None else files

    def _file(self, code: CodeType) -> str | None:
        if code not in self._files:
            name = code.co_filename
            inside = name.startswith(self._root) and "/src/" in name
            self._files[code] = name.removeprefix(self._root) if inside else None
        return self._files[code]


def _watch_turn(tracer: Tracer, session: str) -> None:
    module, _, name = session.partition(":")
    owner = getattr(importlib.import_module(module), name)
    execute = owner.execute

    async def traced(*arguments: Any, **options: Any) -> Any:
        tracer.is_in_turn = True
        try:
            return await execute(*arguments, **options)
        finally:
            tracer.is_in_turn = False

    owner.execute = traced


def _watch_tasks(tracer: Tracer) -> None:
    create_task = asyncio.BaseEventLoop.create_task

    def traced(self: Any, *arguments: Any, **options: Any) -> Any:
        task = create_task(self, *arguments, **options)
        tracer.remember(task)
        return task

    asyncio.BaseEventLoop.create_task = traced


def main(root: str, report: str, session: str, *program: str) -> None:
    """Run the program under the tracer."""
    tracer = Tracer(Path(root))
    sys.setprofile(tracer)
    threading.setprofile(tracer)
    _watch_turn(tracer, session)
    _watch_tasks(tracer)

    def write() -> None:
        sys.setprofile(None)
        Path(report).write_text(json.dumps(tracer.report()), encoding="utf-8")

    atexit.register(write)
    is_module = program[0] == "-m"
    name, *arguments = program[1:] if is_module else program
    sys.argv = [name, *arguments]
    if is_module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(name, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
