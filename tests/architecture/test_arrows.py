"""The arrow gate: what is on disk is in the contracts, and imports point one way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules_on_disk import distribution_folders
from shape_source import circles, source_packages

ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINTER: dict[str, Any] = PYPROJECT["tool"]["importlinter"]
CONTRACTS: dict[str, dict[str, Any]] = {c["name"]: c for c in LINTER["contracts"]}

PACKAGES = [path.parent for path in sorted(ROOT.glob("packages/*/src/*/__init__.py"))]
KERNEL = ROOT / "packages/core/src/amplifier_core"
KIT = ("pytest_plugin.py", "testing.py", "validation")
FOLDERS = distribution_folders(ROOT)
TEST_KIT = ("amplifier_core.pytest_plugin", "amplifier_core.testing", "amplifier_core.validation")

every_distribution = pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)


def imports(path: Path) -> Iterator[str]:
    """Yield every module a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers_of(start: str | tuple[str, ...], *folders: Path) -> set[tuple[str, str]]:
    """Return each file below the folders that imports a name with this start, and the name."""
    return {
        (path.name, name)
        for folder in folders
        for path in folder.rglob("*.py")
        for name in imports(path)
        if name.startswith(start)
    }


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the contracts and the packages of one tree."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    """Empty packages with our names and our layers, under our contracts."""
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    for package in LINTER["root_packages"]:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    for contract in CONTRACTS.values():
        for container in contract.get("containers", []):
            for name in " | ".join(contract["layers"]).split(" | "):
                (tmp_path / container / f"{name}.py").touch()
    return tmp_path


def test_every_package_on_disk_is_in_the_contracts() -> None:
    layers: list[str] = CONTRACTS["Between the packages, arrows point down"]["layers"]

    names = [package.name for package in PACKAGES]
    assert sorted(" | ".join(layers).split(" | ")) == names
    assert sorted(LINTER["root_packages"]) == names


def test_no_package_imports_a_module() -> None:
    assert importers_of("amplifier_module_", *PACKAGES) == set()


@every_distribution
def test_a_module_imports_no_module_of_another_distribution(folder: Path) -> None:
    own = next(folder.glob("src/*/__init__.py")).parent

    found = importers_of("amplifier_module_", own)

    assert {name for _, name in found if name.partition(".")[0] != own.name} == set()


@every_distribution
def test_a_module_runs_on_the_kernel_and_not_on_its_test_kit(folder: Path) -> None:
    assert importers_of(TEST_KIT, folder / "src") == set()


@every_distribution
def test_a_module_uses_nothing_above_the_kit(folder: Path) -> None:
    above = ("amplifier_journal", "amplifier_foundation", "amplifier_runtime", "amplifier_cli")

    assert importers_of(above, folder / "src") == set()


def test_the_sandbox_imports_no_other_package_of_ours() -> None:
    found = importers_of("amplifier_", ROOT / "packages/sandbox/src")

    assert {name for _, name in found if not name.startswith("amplifier_sandbox")} == set()


@pytest.mark.slow  # `make check` runs the gate itself
def test_every_arrow_points_the_right_way() -> None:
    result = lint(ROOT)

    assert result.returncode == 0, result.stdout + result.stderr


def test_the_kernel_depends_on_pydantic_only() -> None:
    own = {"amplifier_core", *sys.stdlib_module_names}
    foreign = {
        (str(path.relative_to(KERNEL)), name.partition(".")[0])
        for path in KERNEL.rglob("*.py")
        for name in imports(path)
        if name.partition(".")[0] not in own
    }

    kit = {(path, name) for path, name in foreign if path.startswith(KIT)}
    assert {name for _, name in kit} <= {"pydantic", "pytest", "pytest_asyncio"}
    assert {name for _, name in foreign - kit} <= {"pydantic"}


@every_distribution
def test_a_module_uses_only_the_public_files_of_the_kernel(folder: Path) -> None:
    found = importers_of("amplifier_core.", folder / "src")

    assert {each for each in found if "._" in each[1]} == set()


def test_the_empty_skeleton_passes(skeleton: Path) -> None:
    result = lint(skeleton)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("path", "line", "broken"),
    [
        (
            "amplifier_core/hooks.py",
            "import amplifier_core.coordinator",
            "Inside the kernel, arrows point down",
        ),
        (
            "amplifier_core/models.py",
            "def late():\n    import amplifier_core.session",
            "Inside the kernel, arrows point down",
        ),
        ("amplifier_core/newcomer.py", "", "Inside the kernel, arrows point down"),
        (
            "amplifier_core/hooks.py",
            "import amplifier_kit",
            "Between the packages, arrows point down",
        ),
        (
            "amplifier_kit/calls.py",
            "import amplifier_kit.secrets",
            "Inside the kit, arrows point down",
        ),
    ],
)
def test_an_arrow_that_points_back_is_reported(
    skeleton: Path, path: str, line: str, broken: str
) -> None:
    (skeleton / path).write_text(line, encoding="utf-8")

    result = lint(skeleton)

    assert result.returncode == 1
    assert f"{broken} BROKEN" in result.stdout


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circles(source_packages(ROOT)) == []
