"""The version gate: this repository passes it, and each copy that differs is reported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ENVIRONMENT = '    {{ root = "{}", extraPaths = ["{}"], reportPrivateUsage = false }},\n'
METADATA = (
    'license = "MIT"\nlicense-files = ["LICENSE"]\nauthors = [{ name = "Ann" }]\n'
    'keywords = ["agent"]\nclassifiers = [\n    "Typing :: Typed",\n]\n'
    'urls = { "Home" = "https://example.test" }\n'
)
FILES = {
    "pyproject.toml": (
        '[tool.amplifier.versions]\nproduct = "1.4.0"\ncontract = "2.0.2"\n\n'
        '[tool.amplifier.metadata]\nauthors = ["Ann"]\nkeywords = ["agent"]\n'
        'classifiers = ["Typing :: Typed"]\nurls = { Home = "https://example.test" }\n\n'
        "[tool.pyright]\nexecutionEnvironments = [\n"
        + ENVIRONMENT.format("tests", "tools")
        + ENVIRONMENT.format("packages/core/tests", "tests")
        + ENVIRONMENT.format("packages/kit/tests", "tests")
        + "]\n"
    ),
    "LICENSE": "Do what you like.\n",
    "packages/core/LICENSE": "Do what you like.\n",
    "packages/kit/LICENSE": "Do what you like.\n",
    "requirements-dev.txt": "# All.\n-e ./packages/core\n-e ./packages/kit\n\npytest\n",
    "constraints.txt": (
        "pydantic==2.12\n# Our own distributions; made by `make versions`.\n"
        "amplifier-core==2.0.2+independent.1.4.0\namplifier-kit==1.4.0\n"
    ),
    "packages/foundation/src/amplifier_foundation/constraints.txt": (
        "# What belongs together, for `pip install -c`; made by `make versions`.\n"
        "amplifier-core==2.0.2+independent.1.4.0\namplifier-kit==1.4.0\n"
    ),
    "packages/core/pyproject.toml": (
        '[project]\nname = "amplifier-core"\nversion = "2.0.2+independent.1.4.0"\n'
        + METADATA
        + 'dependencies = ["pydantic"]\n'
    ),
    "packages/core/src/amplifier_core/__init__.py": ('__version__ = "2.0.2+independent.1.4.0"\n'),
    "packages/kit/pyproject.toml": (
        '[project]\nname = "amplifier-kit"\nversion = "1.4.0"\n'
        + METADATA
        + 'dependencies = ["amplifier-core==2.0.2+independent.1.4.0"]\n'
    ),
    "packages/kit/src/amplifier_kit/__init__.py": '"""The kit."""\n',
}


@pytest.fixture
def tree(repository: Path, plant: Callable[[str, str], None]) -> Path:
    """A repository of two distributions whose versions agree."""
    for path, text in FILES.items():
        plant(path, text)
    return repository


@pytest.mark.slow  # `make check` runs the gate itself
def test_the_versions_of_this_repository_agree(run_tool: Callable[..., Any], root: Path) -> None:
    result = run_tool("versions", root)

    assert result.returncode == 0, result.stdout


def test_versions_that_agree_pass(run_tool: Callable[..., Any], tree: Path) -> None:
    assert run_tool("versions").stdout == "versions: ok\n"


@pytest.mark.parametrize(
    ("path", "right", "wrong"),
    [
        ("packages/core/pyproject.toml", "independent.1.4.0", "independent.1.3.0"),
        ("packages/core/src/amplifier_core/__init__.py", "2.0.2+", "2.0.1+"),
        ("packages/kit/pyproject.toml", '"1.4.0"', '"1.4.1"'),
        ("packages/kit/pyproject.toml", 'name = "Ann"', 'name = "Bob"'),
        ("packages/kit/pyproject.toml", 'license-files = ["LICENSE"]\n', ""),
        ("packages/kit/LICENSE", "like", "must"),
        ("packages/kit/pyproject.toml", "==2.0.2+independent.1.4.0", ""),
        ("packages/kit/pyproject.toml", "==2.0.2+independent.1.4.0", ">=2.0.2"),
        ("constraints.txt", "amplifier-kit==1.4.0\n", ""),
        ("requirements-dev.txt", "-e ./packages/kit\n", "-e ./packages/gone\n"),
        ("pyproject.toml", "packages/kit/tests", "packages/gone/tests"),
        (
            "packages/foundation/src/amplifier_foundation/constraints.txt",
            "amplifier-kit==1.4.0",
            "amplifier-kit==1.3.0",
        ),
    ],
)
def test_a_copy_that_differs_is_reported_and_rewritten(
    run_tool: Callable[..., Any], tree: Path, root: Path, path: str, right: str, wrong: str
) -> None:
    (tree / path).write_text(FILES[path].replace(right, wrong), encoding="utf-8")

    result = run_tool("versions")
    tool = root / "tools" / "check_versions.py"
    subprocess.run([sys.executable, str(tool), str(tree), "--write"], check=True)

    assert result.returncode == 1
    assert result.stdout.startswith(f"{tree / path}: it is not what the project files say")
    assert (tree / path).read_text(encoding="utf-8") == FILES[path]
