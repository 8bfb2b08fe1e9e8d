"""Published suites are found in snapshots, run on both kernels, and compared test by test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_TOOLS = Path(__file__).parents[2] / "tools"
# Last, for a tool and a folder of tests share a name.
sys.path.append(str(_TOOLS))

from ecosystem_suites import check_out, distribution_of, find_suites  # noqa: E402

_PROJECT = """
[project]
name = "amplifier-module-tool-greet"
version = "1.2.3"
requires-python = ">=3.11"
dependencies = ["amplifier-core>=1.0.0", "amplifier_foundation", "packaging>=20"]

[project.entry-points."amplifier.modules"]
tool-greet = "amplifier_module_tool_greet:mount"

[dependency-groups]
dev = ["iniconfig", { include-group = "other" }]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""
_MODULE = """
from amplifier_core import ToolResult


class Greet:
    name = "greet"
    description = "Greets."
    input_schema = {"type": "object", "properties": {}}

    async def execute(self, input):
        return ToolResult(success=True, output="Hello")


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Greet(), name="greet")
"""
_TESTS = """
import importlib.metadata

from amplifier_core import ToolResult
from amplifier_module_tool_greet import Greet


def test_it_has_a_name():
    assert Greet.name == "greet"


def test_the_kernel_is_the_original():
    assert "+" not in importlib.metadata.version("amplifier-core")
"""


@pytest.fixture
def snapshots(tmp_path: Path) -> Path:
    """A folder with one repository, without a work tree, as snapshots are kept."""
    work = tmp_path / "work"
    module = work / "modules" / "tool-greet"
    (module / "tests").mkdir(parents=True)
    (module / "amplifier_module_tool_greet").mkdir()
    (module / "pyproject.toml").write_text(_PROJECT, encoding="utf-8")
    package = module / "amplifier_module_tool_greet" / "__init__.py"
    package.write_text(_MODULE, encoding="utf-8")
    (module / "tests" / "test_greet.py").write_text(_TESTS, encoding="utf-8")
    _git(work, "init", "--quiet")
    _git(work, "add", ".")
    user = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    _git(work, *user, "commit", "--quiet", "--message", "a module")
    kept = tmp_path / "snapshots" / "someone+bundle-greet" / "repo"
    kept.parent.mkdir(parents=True)
    _git(work, "clone", "--quiet", "--bare", ".", str(kept))
    return tmp_path / "snapshots"


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, timeout=60, capture_output=True)


def test_a_distribution_is_found_with_what_it_and_its_tests_need(
    snapshots: Path, tmp_path: Path
) -> None:
    [suite] = find_suites(check_out([snapshots], tmp_path / "copies"))

    assert suite.name == "amplifier-module-tool-greet"
    assert suite.version == "1.2.3"
    assert suite.repository == "someone/bundle-greet"
    assert suite.is_module
    assert suite.has_tests
    assert suite.libraries == ["packaging>=20", "iniconfig"]
    assert suite.siblings == {"amplifier-foundation"}


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("Amplifier_Core >= 1.0", "amplifier-core"),
        ("pkg[extra]>=1; python_version < '4'", "pkg"),
        ("amplifier-foundation @ git+https://host.example/x", "amplifier-foundation"),
    ],
)
def test_a_requirement_is_known_by_its_name(requirement: str, name: str) -> None:
    assert distribution_of(requirement) == name


@pytest.mark.slow
def test_a_test_that_differs_is_in_the_table_and_the_comparison_fails(
    snapshots: Path, tmp_path: Path
) -> None:
    table = tmp_path / "table.md"
    command = [sys.executable, str(_TOOLS / "ecosystem.py"), str(snapshots), "--table", str(table)]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert table.is_file(), done.stdout + done.stderr
    lines = table.read_text(encoding="utf-8").splitlines()
    [row] = [line for line in lines if line.startswith("| amplifier-module-tool-greet |")]
    cells = row.strip("| ").split(" | ")
    assert cells[-4:] == ["2", "1, 1 failed", "1", "yes"]
    test = "tests.test_greet::test_the_kernel_is_the_original"
    assert f"- amplifier-module-tool-greet: `{test}` (1) on the original: not explained" in lines
