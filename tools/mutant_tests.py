"""Which tests pass over which line of the kernel, and whether they notice a mutant of it.

Starting pytest takes longer than the few tests that end a mutant. So one pytest process collects
all tests, and a mutant is a fork of it in which the code of one function is replaced. What is not
in a function, a constant say, was read already: its mutant gets a fresh pytest and a kernel copy.
"""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

import coverage
import pytest
from hypothesis import Phase, settings

from mutant_kernel import ROOT, KernelCopy
from mutant_source import Mutant

FOLDERS = ("packages/core/tests", "tests/contract")
# About other things than the files that are mutated, and slower than all the rest together.
# Leaving them out can only make a mutant survive that they would have noticed.
LEFT_OUT = (
    "test_canary_secrets",
    "test_context_simple",
    "test_coverage",
    "test_loop_faults",
    "test_pytest_plugin",
    "test_pytest_plugin_fixtures",
    "test_retry",
    "test_suites",
    "test_testing",
    "test_testing_kit",
    "test_validation_suites",
)
# How many tests a mutant meets at most, the nearest first.
MOST = 200

KILLED, SURVIVED, TIMEOUT, INVALID = "killed", "survived", "timeout", "invalid"
_NOT_PYTHON = 99

# A counterexample need not be the smallest: that there is one ends the mutant.
settings.register_profile(
    "mutants",
    settings.get_profile("default"),
    derandomize=True,
    deadline=None,
    max_examples=25,
    phases=(Phase.explicit, Phase.generate),
)

# Nobody reads what the tests print.
OPTIONS = ("-x", "--assert=plain", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist")


def judging_files() -> list[str]:
    """Return the test files that judge mutants."""
    return [
        f"{folder}/{path.name}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).glob("test_*.py"))
        if path.stem not in LEFT_OUT
    ]


@dataclass
class Reach:
    """What one run of all tests showed: the lines that each of them passes over."""

    # file name -> line -> tests
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict[str, dict[int, set[str]]])
    # Tests of many examples: each takes as long as a hundred others, so they come last.
    properties: set[str] = field(default_factory=set[str])
    failed: list[str] = field(default_factory=list[str])
    # Tests that pass over no line at all.
    shapes: set[str] = field(default_factory=set[str])
    # How many lines each test passes over: the fewer, the more it is about them.
    breadth: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, data: coverage.CoverageData) -> None:
        """Take over what was measured, with the name of each test as its context."""
        for file in data.measured_files():
            if Path(file).parent.name != "amplifier_core":
                continue
            by_line = self.lines[Path(file).name] = {}
            for number, tests in data.contexts_by_lineno(file).items():
                by_line[number] = {test for test in tests if test}
                for test in by_line[number]:
                    self.breadth[test] = self.breadth.get(test, 0) + 1

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Return the tests that pass over a mutant, those nearest to it first."""
        by_line = self.lines.get(mutant.file, {})
        start, end = mutant.scope
        tests: set[str] = set()
        if start <= mutant.number <= end:
            tests = by_line.get(mutant.number, tests)
        if not tests and mutant.is_in_function:
            # A default runs on import and a constant never: take who calls the function.
            tests = _passing(by_line, range(start, end + 1))
        if not tests:
            tests = _passing(by_line, by_line)
        # The first letters tell the topic: `_mounting` is what `test_mount_wave` is about.
        topic = f"test_{mutant.file.strip('_')[:4]}"

        def distance(test: str) -> tuple[bool, int, str]:
            file = Path(test.partition("::")[0]).name
            return not file.startswith(topic), self.breadth.get(test, 0), test

        judges = sorted(tests - self.properties, key=distance)[:MOST]
        if not start <= mutant.number <= end:
            # What a file offers and what its signatures say is seen without running it.
            judges += sorted(self.shapes)
        return judges + sorted(tests & self.properties)


def _passing(by_line: dict[int, set[str]], numbers: Iterable[int]) -> set[str]:
    return {test for number in numbers for test in by_line.get(number, ())}


class Run:
    """One mutant in a process of its own, which is ended when it takes too long."""

    def __init__(self, mutant: Mutant, judges: Judges, kernel: KernelCopy, limit: float) -> None:
        self.mutant = mutant
        self.kernel = kernel
        self._deadline = time.monotonic() + limit
        assert sys.platform != "win32", "Windows has no fork"
        self._process = os.fork()
        if self._process == 0:
            # Whatever a mutant raises, this child must not return into the code of its parent.
            noticed = 1
            try:
                os.setpgid(0, 0)
                noticed = judges.judge(mutant, kernel)
            finally:
                os._exit(noticed)

    def poll(self) -> str | None:
        """Return what became of the mutant, None while nobody knows."""
        assert sys.platform != "win32", "Windows has no fork"
        process, status = os.waitpid(self._process, os.WNOHANG)
        if process:
            code = os.waitstatus_to_exitcode(status)
            return {0: SURVIVED, _NOT_PYTHON: INVALID}.get(code, KILLED)
        if time.monotonic() < self._deadline:
            return None
        with suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        return TIMEOUT


# Before a mutant is judged, all tests have to pass once.
_MOST_MEASURES = 2


class Judges:
    """All tests, collected and ready to run, and what each of them passes over."""

    def __init__(self, session: pytest.Session, kernel: KernelCopy, notes: Path) -> None:
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        self._reach = self._measure(kernel, notes)

    def judge(self, mutant: Mutant, kernel: KernelCopy) -> int:
        """Run the tests on a mutant, in a child process; 0 when none of them notices it."""
        code = mutant.code()
        if code is None:
            return _NOT_PYTHON
        tests = self._reach.tests_for(mutant)
        _silence()
        if mutant.is_in_function:
            _patch(mutant, code)
            self._run([self._items[name] for name in tests])
            return 1 if self._session.testsfailed else 0
        kernel.change(mutant.file, code)
        os.environ["PYTHONPATH"] = str(kernel.folder)
        # A cache of this mutant would be taken for the next one.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        return os.execv(sys.executable, [sys.executable, "-m", "pytest", *OPTIONS, *tests])

    def _measure(self, kernel: KernelCopy, notes: Path) -> Reach:
        """Run every test once, in a child: tests leave traces."""
        for _ in range(_MOST_MEASURES):
            reach = self._measured(kernel, notes)
            if reach is not None and not reach.failed:
                return reach
            # Tests of processes and time may fail on a machine that is busy with something else.
            print("  measuring the tests failed", "" if reach is None else reach.failed, flush=True)
        raise SystemExit("mutants: the tests fail without any mutant")

    def _measured(self, kernel: KernelCopy, notes: Path) -> Reach | None:
        assert sys.platform != "win32", "Windows has no fork"
        process = os.fork()
        if process == 0:
            try:
                notes.write_bytes(pickle.dumps(self._reach_of_all(kernel)))
                os._exit(0)
            except BaseException:  # noqa: BLE001 - the notes say it; a child must end here
                notes.write_text(traceback.format_exc(), encoding="utf-8")
                os._exit(1)
        _, status = os.waitpid(process, 0)
        if status:
            told = notes.read_text(encoding="utf-8") if notes.exists() else ""
            print(f"  the child ended with status {status} {told}", flush=True)
            return None
        return pickle.loads(notes.read_bytes())

    def _reach_of_all(self, kernel: KernelCopy) -> Reach:
        measuring = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{kernel.folder}/*"], messages=False
        )
        reach = Reach()
        _silence()
        measuring.start()
        for name, item in self._items.items():
            measuring.switch_context(name)
            self._run([item])
            if self._session.testsfailed:
                reach.failed.append(name)
                self._session.testsfailed = 0
            if item.get_closest_marker("hypothesis") is not None:
                reach.properties.add(name)
        measuring.stop()
        reach.take(measuring.get_data())
        reach.shapes = set(self._items) - set(reach.breadth) - reach.properties
        return reach

    def _run(self, items: list[pytest.Item]) -> None:
        """Run tests one after the other, until one fails."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._session.testsfailed:
                return


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _patch(mutant: Mutant, code: str) -> None:
    """Give the loaded function the code and the defaults that it has in the mutant."""
    name = f"amplifier_core.{mutant.file.removesuffix('.py')}"
    loaded = sys.modules[name]
    changed = ModuleType(name)
    changed.__file__ = loaded.__file__
    exec(compile(code, str(loaded.__file__), "exec"), changed.__dict__)
    path = mutant.function.split(".")
    for function, other in zip(_functions(loaded, path), _functions(changed, path), strict=True):
        function.__code__ = other.__code__
        function.__defaults__ = other.__defaults__
        function.__kwdefaults__ = other.__kwdefaults__


def _functions(home: Any, path: list[str]) -> list[FunctionType]:
    """Return the outermost function on a path of names: one, or the two of a property."""
    found: object = cast("dict[str, object]", home.__dict__)[path[0]]
    if inspect.isclass(found):
        return _functions(found, path[1:])
    # A property is around its functions, a static method or a cached function around one.
    around = [getattr(found, name, None) for name in ("fget", "fset", "__wrapped__")]
    inner = [each for each in around if isinstance(each, FunctionType)]
    return inner or [cast("FunctionType", found)]
