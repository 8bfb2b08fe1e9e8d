"""Every module has the same shape, so that whoever has read one finds their way in all of them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for path in ROOT.glob("modules/[a-z]*") if path.is_dir())
KIND_TO_TYPE = {
    "provider": "provider",
    "tool": "tool",
    "loop": "orchestrator",
    "context": "context",
    "hooks": "hook",
}
HEADINGS = ["What it does", "Configuration", "Events", "Limits"]
KEYS = [
    "build-system.requires",
    "build-system.build-backend",
    "project.name",
    "project.version",
    "project.description",
    "project.readme",
    "project.requires-python",
    "project.license",
    "project.dependencies",
    "project.entry-points.amplifier.modules",
    "tool.hatch.build.targets.wheel.packages",
]

every_module = pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)


def keys(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of a TOML table in the order in which they are written."""
    for key, value in table.items():
        if isinstance(value, dict) and key != "amplifier.modules":
            yield from keys(value, f"{prefix}{key}.")  # pyright: ignore[reportUnknownArgumentType] - TOML is untyped
        else:
            yield prefix + key


def package(module: Path) -> Path:
    return module / "src" / ("amplifier_module_" + module.name.replace("-", "_"))


def pyproject(room: Path) -> dict[str, Any]:
    return tomllib.loads((room / "pyproject.toml").read_text(encoding="utf-8"))


@every_module
def test_the_metadata_has_the_same_keys_in_the_same_order(module: Path) -> None:
    assert list(keys(pyproject(module))) == KEYS


@every_module
def test_the_metadata_says_what_the_folder_says(module: Path) -> None:
    metadata = pyproject(module)
    name = package(module).name

    assert metadata["project"]["name"] == f"amplifier-module-{module.name}"
    assert (
        metadata["project"]["version"]
        == pyproject(ROOT)["tool"]["amplifier"]["versions"]["product"]
    )
    entry_points = metadata["project"]["entry-points"]["amplifier.modules"]
    assert entry_points == {module.name: f"{name}:mount"}
    assert metadata["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [f"src/{name}"]


@every_module
def test_the_readme_has_the_four_headings_in_order(module: Path) -> None:
    text = (module / "README.md").read_text(encoding="utf-8")

    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


@every_module
def test_the_files_a_reader_looks_for_are_there(module: Path) -> None:
    files = [package(module) / name for name in ("__init__.py", "config.py", "py.typed")]

    assert [path.name for path in files if not path.is_file()] == []
    assert list((module / "tests").glob("test_*.py"))


@every_module
def test_the_package_declares_its_type_and_an_async_mount(module: Path) -> None:
    tree = ast.parse((package(module) / "__init__.py").read_text(encoding="utf-8"))
    mounts = [n for n in tree.body if isinstance(n, ast.AsyncFunctionDef) and n.name == "mount"]
    types = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and [ast.unparse(target) for target in node.targets] == ["__amplifier_module_type__"]
    ]

    assert types == [KIND_TO_TYPE[module.name.partition("-")[0]]]
    assert len(mounts) == 1
    assert ast.get_docstring(tree), "a package opens with one sentence"
