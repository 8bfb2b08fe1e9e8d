"""The two kernels that published suites run on, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from ecosystem_models import model_server
from ecosystem_suites import Suite

ORIGINAL = "amplifier-core==2.0.2"
# What a checkout of ours brings; its modules stay out, for published ones have the same names.
_OURS = ("core", "sandbox", "kit", "journal", "foundation", "cli")
_BUILD = ("hatchling", "setuptools", "wheel")
_PYTEST = ("pytest", "pytest-asyncio", "pytest-mock", "pytest-cov", "pytest-timeout", "anyio")
_MINUTES_TO_INSTALL = 15
_MINUTES_TO_TEST = 20
_MINUTES_TO_VALIDATE = 2
# What modules do not mount without, or ask for their models. `SERVER` is one on this machine.
_NEEDS: dict[str, dict[str, str]] = {
    "hooks-deprecation": {"bundle_name": "a-bundle", "message": "Use another."},
    "provider-anthropic": {"base_url": "SERVER", "api_key": "placeholder"},
    "provider-azure-openai": {"azure_endpoint": "SERVER", "api_key": "placeholder"},
    "provider-chat-completions": {"base_url": "SERVER/v1"},
    "provider-gemini": {"base_url": "SERVER", "api_key": "placeholder"},
    "provider-ollama": {"host": "SERVER"},
    "provider-openai": {"base_url": "SERVER/v1", "api_key": "placeholder"},
    "provider-vllm": {"base_url": "SERVER/v1"},
}
# What modules need and do not declare: another module, or not the newest version of a library.
_BESIDE = {"provider-azure-openai": "amplifier-module-provider-openai"}
_LIMITS = {"tool-mcp": "mcp<2"}
_KEYS = ("API_KEY", "BASE_URL", "TOKEN")


class Run(NamedTuple):
    """What became of one suite on one kernel: every test by what it did, or why none ran."""

    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    note: str = ""
    # What `amplifier module validate` says of a module; "yes" when it is content.
    validates: str = ""


def _libraries_of(folders: list[Path]) -> list[str]:
    """Return what distributions require of other projects."""
    projects = [tomllib.loads((each / "pyproject.toml").read_text("utf-8")) for each in folders]
    required = {line for each in projects for line in each["project"]["dependencies"]}
    return sorted(line for line in required if not line.startswith("amplifier-"))


class Kernel:
    """An environment with one of the kernels, in which suites run one after the other."""

    def __init__(self, name: str, folder: Path, checkout: Path, python: str) -> None:
        self.name = name
        self._base_python = python
        self.is_ours = name == "ours"
        self._folder = folder / name
        self._checkout = checkout
        self._python = self._folder / "venv" / "bin" / "python"

    def prepare(self) -> None:
        """Make the environment; raises OSError when that fails."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._python.is_file():
            self._checked([self._base_python, "-m", "venv", str(self._folder / "venv")])
        self._install([*_BUILD, *_PYTEST])
        self._install_kernel()

    def _install_kernel(self) -> None:
        if self.is_ours:
            folders = [self._checkout / "packages" / each for each in _OURS]
            pinned = ["-c", str(self._checkout / "constraints.txt")]
            self._install([*pinned, *_libraries_of(folders)])
            # Without what they require: the command requires our modules.
            self._install(["--no-deps", "--no-build-isolation", *map(str, folders)])
        else:
            self._install([ORIGINAL])

    def python_version(self) -> str:
        """Return what the suites ran with, such as `Python 3.12.1`."""
        return subprocess.run(
            [str(self._python), "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()

    def run(self, suite: Suite, published: dict[str, Suite]) -> Run:
        """Install what the suite needs, and run its tests.

        A module gets the foundation that the kernel comes with: ours, or the published one. What
        is not a module is written for the published foundation, and gets that one on both.
        """
        try:
            self._add(suite)
        except OSError as error:
            return Run(note=str(error), validates="not installed")
        try:
            run = self._test(suite, published) if suite.has_tests else Run()
            if self.is_ours and suite.is_module:
                run = run._replace(validates=self._validate(suite, published))
        except subprocess.TimeoutExpired as error:
            return Run(note=f"not ended after {error.timeout:.0f} seconds")
        finally:
            self._remove(suite)
        return run

    def _remove(self, suite: Suite) -> None:
        self._checked([str(self._python), "-m", "pip", "uninstall", "-qy", suite.name])
        if self.is_ours and suite.name.removeprefix("amplifier-") in _OURS:
            # The published distribution of that name had taken the place of ours.
            self._install_kernel()

    def _test(self, suite: Suite, published: dict[str, Suite]) -> Run:
        report = self._folder / f"{suite.name}.xml"
        report.unlink(missing_ok=True)
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "tests"]
        self._python_run(command, suite, published, _MINUTES_TO_TEST)
        return _read(report) if report.is_file() else Run(note="pytest wrote no report")

    def _validate(self, suite: Suite, published: dict[str, Suite]) -> str:
        command = ["-m", "amplifier_cli", "module", "validate", str(suite.folder)]
        with model_server() as address:
            needs = _NEEDS.get(suite.module_id)
            if needs is not None:
                config = {key: each.replace("SERVER", address) for key, each in needs.items()}
                command += ["--config", json.dumps(config)]
            done = self._python_run(command, suite, published, _MINUTES_TO_VALIDATE)
        if done.returncode == 0:
            return "yes"
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        return next((line for line in lines if "✗" in line or "failed" in line), lines[-1])

    def _add(self, suite: Suite) -> None:
        """Install the libraries of a suite, then itself, without a look at the kernel it wants."""
        limits = [_LIMITS[suite.module_id]] if suite.module_id in _LIMITS else []
        if suite.libraries:
            self._install([*suite.libraries, *limits])
        self._install(["--no-deps", "--no-build-isolation", "--force-reinstall", str(suite.folder)])

    def _install(self, what: list[str]) -> None:
        command = [str(self._python), "-m", "pip", "install", "-q", *what]
        self._checked(command)

    def _checked(self, command: list[str]) -> None:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_MINUTES_TO_INSTALL * 60,
            check=False,
        )
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise OSError("; ".join(lines) or f"{command[:4]} ended with {done.returncode}")

    def _python_run(
        self, arguments: list[str], suite: Suite, published: dict[str, Suite], minutes: float
    ) -> subprocess.CompletedProcess[str]:
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.endswith(_KEYS)}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        paths = [str(path) for path in self._paths(suite, published)]
        log = self._folder / f"{suite.name}.{arguments[1]}.log"
        done = subprocess.run(
            [str(self._python), *arguments],
            cwd=suite.folder,
            env={**kept, "HOME": str(home), "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=minutes * 60,
            check=False,
        )
        log.write_text(done.stdout, encoding="utf-8")
        return done

    def _paths(self, suite: Suite, published: dict[str, Suite]) -> list[Path]:
        """Return where the suite, and published distributions that it needs, are imported from.

        A module may also import the packages of the bundle that it is in.
        """
        around = {name for name, each in published.items() if each.repository == suite.repository}
        beside = {_BESIDE[suite.module_id]} if suite.module_id in _BESIDE else set[str]()
        wanted = suite.siblings | around | beside | {"amplifier-foundation"}
        if self.is_ours and suite.is_module:
            wanted.discard("amplifier-foundation")
        folders = [
            suite.folder,
            *(published[each].folder for each in sorted(wanted & set(published))),
        ]
        paths = [path for folder in folders for path in (folder, folder / "src", folder / "lib")]
        return [path for path in paths if path.is_dir()]


def _read(report: Path) -> Run:
    """Read what pytest wrote about each test."""
    outcomes: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname')}::{case.get('name')}"
        tags = {child.tag for child in case}
        if tags & {"failure", "error"}:
            outcomes["failed"].add(test)
        elif "skipped" in tags:
            outcomes["skipped"].add(test)
        else:
            outcomes["passed"].add(test)
    passed, failed, skipped = (frozenset(tests) for tests in outcomes.values())
    return Run(passed, failed, skipped)
