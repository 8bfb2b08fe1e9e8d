"""The arrow gate: the rooms on disk are the rooms in the contracts, and imports point one way."""

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

ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINTER: dict[str, Any] = PYPROJECT["tool"]["importlinter"]
CONTRACTS: dict[str, dict[str, Any]] = {c["name"]: c for c in LINTER["contracts"]}

ROOMS = ["core", "kit", "foundation", "runtime", "cli"]
PACKAGES = [f"amplifier_{room}" for room in ROOMS]
KERNEL = ROOT / "packages/core/src/amplifier_core"
KIT = ("pytest_plugin.py", "testing.py", "validation")
MODULE_IDS = sorted(path.parent.name for path in ROOT.glob("modules/*/pyproject.toml"))
MODULES = ["amplifier_module_" + module_id.replace("-", "_") for module_id in MODULE_IDS]


def imports(path: Path) -> Iterator[str]:
    """Yield every module a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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


def test_every_room_on_disk_is_in_the_contracts() -> None:
    packages = [path.parent.name for path in ROOT.glob("packages/*/src/*/__init__.py")]

    assert sorted(packages) == sorted(PACKAGES)
    assert CONTRACTS["Between the rooms, arrows point down"]["layers"] == PACKAGES[::-1]
    assert CONTRACTS["Nobody imports a module by name"]["source_modules"] == PACKAGES
    assert LINTER["root_packages"] == [*PACKAGES, *MODULES]
    assert CONTRACTS["Modules do not know each other"]["modules"] == MODULES
    assert CONTRACTS["Nobody imports a module by name"]["forbidden_modules"] == MODULES
    assert CONTRACTS["Modules run on the kernel, not on its test kit"]["source_modules"] == MODULES


def test_every_room_on_disk_is_installed_and_type_checked() -> None:
    requirements = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    environments = PYPROJECT["tool"]["pyright"]["executionEnvironments"]

    rooms = [*(f"packages/{room}" for room in ROOMS), *(f"modules/{each}" for each in MODULE_IDS)]
    assert [line for line in requirements if line.startswith("-e")] == [f"-e ./{r}" for r in rooms]
    assert [e["root"] for e in environments] == ["tests", *(f"{room}/tests" for room in rooms)]


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


@pytest.mark.parametrize("module_id", MODULE_IDS)
def test_a_module_uses_only_the_public_files_of_the_kernel(module_id: str) -> None:
    private = {
        (path.name, name)
        for path in ROOT.glob(f"modules/{module_id}/src/**/*.py")
        for name in imports(path)
        if name.startswith("amplifier_core.") and "._" in name
    }

    assert private == set()


def test_the_empty_skeleton_passes(skeleton: Path) -> None:
    result = lint(skeleton)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("path", "line", "broken"),
    [
        (
            "amplifier_module_loop_basic/__init__.py",
            "import amplifier_module_context_simple",
            "Modules do not know each other",
        ),
        (
            "amplifier_core/loader.py",
            "import amplifier_module_loop_basic",
            "Nobody imports a module by name",
        ),
        (
            "amplifier_module_loop_basic/__init__.py",
            "import amplifier_core.testing",
            "Modules run on the kernel, not on its test kit",
        ),
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
            "Between the rooms, arrows point down",
        ),
        (
            "amplifier_kit/calls.py",
            "import amplifier_kit.turns",
            "Inside the kit, its parts stand side by side",
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
