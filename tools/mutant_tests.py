"""Which tests pass over which line of the kernel, and whether they notice a mutant of it."""

from __future__ import annotations

import compileall
import gc
import importlib
import os
import py_compile
import shutil
import signal
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import coverage
import pytest
from hypothesis import Phase, settings

from mutant_source import Mutant

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "packages" / "core" / "src"
FOLDERS = ("packages/core/tests", "tests/contract")
# About other things than the files that are mutated, and slower than all the rest together.
# Leaving them out can only make a mutant survive that they would have noticed.
LEFT_OUT = (
    "test_canary_secrets",
    "test_context_simple",
    "test_coverage",
    "test_history",
    "test_history_growth",
    "test_loop_faults",
    "test_pytest_plugin",
    "test_pytest_plugin_fixtures",
    "test_request_history",
    "test_retry",
    "test_suites",
    "test_testing",
    "test_testing_kit",
    "test_validation_faults",
    "test_validation_faults_context",
    "test_validation_faults_hook",
    "test_validation_faults_orchestrator",
    "test_validation_faults_provider",
    "test_validation_faults_tool",
    "test_validation_suites",
)
# How many tests a mutant meets: a first few, which end most of them, then the others.
FIRST = 10
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


class KernelCopy:
    """A copy of the kernel, compiled, in which one file at a time is a mutant's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        # Unchecked: what is cached is used as it is, so a mutated file must have no cache at all.
        compileall.compile_dir(
            str(folder), quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )

    def change(self, file: str, code: str) -> None:
        """Put the code of a mutant in the place of a file."""
        self._cache_of(file).unlink(missing_ok=True)
        (self.folder / "amplifier_core" / file).write_text(code, encoding="utf-8")

    def restore(self, file: str) -> None:
        """Put the file itself back."""
        copy = self.folder / "amplifier_core" / file
        shutil.copyfile(SOURCE / "amplifier_core" / file, copy)
        py_compile.compile(
            str(copy), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )

    def use(self) -> None:
        """Let this process and its children import it instead of the one that is installed."""
        sys.path.insert(0, str(self.folder))
        os.environ["PYTHONPATH"] = str(self.folder)
        os.chdir(ROOT)

    def _cache_of(self, file: str) -> Path:
        return Path(cache_from_source(str(self.folder / "amplifier_core" / file)))


@dataclass
class Reach:
    """What one run of all tests showed: the lines each test passes over, and what it imported."""

    # file name -> line -> tests
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict[str, dict[int, set[str]]])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    imported: list[str] = field(default_factory=list[str])

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Return the tests that pass over a mutant, those nearest to it first."""
        by_line = self.lines.get(mutant.file, {})
        start, end = mutant.scope
        tests: set[str] = set()
        if start <= mutant.number <= end:
            tests = by_line.get(mutant.number, tests)
        if not tests and start:
            # A default runs on import and a constant never: take who calls the function.
            tests = self._passing(by_line, range(start, end + 1))
        if not tests:
            tests = self._passing(by_line, by_line)
        breadth = self._breadth()
        topic = f"test_{mutant.file.removesuffix('.py').strip('_')}"

        def distance(test: str) -> tuple[bool, int, str]:
            return Path(test.partition("::")[0]).stem != topic, breadth.get(test, 0), test

        return sorted(tests, key=distance)[:MOST]

    @staticmethod
    def _passing(by_line: dict[int, set[str]], numbers: Iterable[int]) -> set[str]:
        return {test for number in numbers for test in by_line.get(number, ())}

    def _breadth(self) -> dict[str, int]:
        """Return how many lines each test passes over: the fewer, the more it is about them."""
        if not hasattr(self, "_known_breadth"):
            counts: dict[str, int] = {}
            for by_line in self.lines.values():
                for tests in by_line.values():
                    for test in tests:
                        counts[test] = counts.get(test, 0) + 1
            self._known_breadth = counts
        return self._known_breadth


class _Probe:
    """A pytest plugin that notes for every test what it passes over."""

    def __init__(self, measuring: coverage.Coverage) -> None:
        self._measuring = measuring
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        started = time.monotonic()
        self._measuring.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._measuring.switch_context("")
            self.seconds[item.nodeid] = time.monotonic() - started

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def measure(kernel: KernelCopy) -> Reach:
    """Run every test once, in this process, on `kernel`.

    Raises:
        SystemExit: a test fails; there is nothing to learn from mutants then.
    """
    sys.dont_write_bytecode = False
    kernel.use()
    measuring = coverage.Coverage(
        data_file=None, config_file=False, include=[f"{kernel.folder}/*"], messages=False
    )
    measuring.start()
    probe = _Probe(measuring)
    status = pytest.main([*_options(), *_files()], [probe])
    measuring.stop()
    if status != 0:
        raise SystemExit(f"mutants: tests fail without any mutant: {probe.failed or status}")
    data = measuring.get_data()
    reach = Reach(seconds=probe.seconds, imported=_preloadable())
    for file in data.measured_files():
        if Path(file).parent.name != "amplifier_core":
            continue
        contexts = data.contexts_by_lineno(file)
        reach.lines[Path(file).name] = {
            number: {test for test in tests if test} for number, tests in contexts.items()
        }
    return reach


def preload(names: Iterable[str]) -> None:
    """Import what the tests use and no mutant changes, so that a run does not pay for it."""
    for name in names:
        with suppress(Exception):
            importlib.import_module(name)
    # What is there now stays: no collection in a child has to look at it.
    gc.freeze()


class Run:
    """One mutant in a process of its own, which is ended when it takes too long."""

    def __init__(self, mutant: Mutant, reach: Reach, kernel: KernelCopy) -> None:
        self.mutant = mutant
        self.outcome: str | None = None
        self.kernel = kernel
        tests = reach.tests_for(mutant)
        self._rounds = [part for part in (tests[:FIRST], tests[FIRST:]) if part]
        self._seconds = reach.seconds
        self._process = 0
        self._deadline = 0.0
        if self._rounds:
            self._start(self._rounds.pop(0))
        else:
            self.outcome = SURVIVED

    def poll(self) -> str | None:
        """Return what became of the mutant, None while nobody knows."""
        if self.outcome is not None:
            return self.outcome
        process, status = os.waitpid(self._process, os.WNOHANG)
        if process:
            self._ended(os.waitstatus_to_exitcode(status))
        elif time.monotonic() > self._deadline:
            with suppress(ProcessLookupError):
                os.killpg(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            self.outcome = TIMEOUT
        return self.outcome

    def _ended(self, code: int) -> None:
        if code == _NOT_PYTHON:
            self.outcome = INVALID
        elif code != 0:
            self.outcome = KILLED
        elif self._rounds:
            self._start(self._rounds.pop(0))
        else:
            self.outcome = SURVIVED

    def _start(self, tests: list[str]) -> None:
        usual = sum(self._seconds.get(test, 0.0) for test in tests)
        self._deadline = time.monotonic() + 20 + 5 * usual
        self._process = os.fork()
        if self._process == 0:
            os._exit(_judge(self.mutant, tests, self.kernel))
        with suppress(ProcessLookupError, PermissionError):
            os.setpgid(self._process, self._process)


def _judge(mutant: Mutant, tests: list[str], kernel: KernelCopy) -> int:
    """Run the tests on the mutant, in a child process; 0 when none of them notices it."""
    with suppress(PermissionError):
        os.setpgid(0, 0)
    code = mutant.code()
    if code is None:
        return _NOT_PYTHON
    kernel.change(mutant.file, code)
    kernel.use()
    # A cache of this mutant would be taken for the next one.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    return int(pytest.main([*_options(), "-x", *tests]))


def _options() -> list[str]:
    return [
        "-q",
        "--no-header",
        "--tb=no",
        "--assert=plain",
        "--hypothesis-profile=mutants",
        "--confcutdir",
        str(ROOT),
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]


def _files() -> list[str]:
    return [
        f"{folder}/{path.name}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).glob("test_*.py"))
        if path.stem not in LEFT_OUT
    ]


def _preloadable() -> list[str]:
    """Return the loaded modules that come from neither the kernel nor the tests."""
    ours = ("amplifier_", "contract", "conftest", "test_", "tests", "packages", "mutant", "__")
    return sorted(
        name
        for name, module in list(sys.modules.items())
        if not name.startswith(ours)
        and "site-packages" in (getattr(module, "__file__", None) or "site-packages")
    )
