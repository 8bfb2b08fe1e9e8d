"""Every module has the same shape, so that whoever has read one finds their way in all of them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules_on_disk import Module, distribution_folders, modules

ROOT = Path(__file__).parents[2]
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
    "project.license-files",
    "project.authors",
    "project.keywords",
    "project.classifiers",
    "project.urls.Original project",
    "project.dependencies",
    "project.entry-points.amplifier.modules",
    "tool.hatch.build.targets.wheel.packages",
]

every_module = pytest.mark.parametrize("module", modules(ROOT), ids=lambda each: each.module_id)
every_distribution = pytest.mark.parametrize(
    "folder", distribution_folders(ROOT), ids=lambda path: path.name
)


def keys(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of a TOML table in the order in which they are written."""
    for key, value in table.items():
        if isinstance(value, dict) and key not in ("amplifier.modules", "summaries"):
            yield from keys(value, f"{prefix}{key}.")  # pyright: ignore[reportUnknownArgumentType] - TOML is untyped
        else:
            yield prefix + key


def pyproject(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


@every_distribution
def test_the_metadata_has_the_same_keys_in_the_same_order(folder: Path) -> None:
    entry_points = pyproject(folder)["project"]["entry-points"]["amplifier.modules"]
    expected = [*KEYS, "tool.amplifier.summaries"] if len(entry_points) > 1 else KEYS

    assert list(keys(pyproject(folder))) == expected


@every_distribution
def test_the_metadata_says_what_the_folder_says(folder: Path) -> None:
    metadata = pyproject(folder)
    package = "amplifier_module_" + folder.name.replace("-", "_")

    assert metadata["project"]["name"] == f"amplifier-module-{folder.name}"
    assert (
        metadata["project"]["version"]
        == pyproject(ROOT)["tool"]["amplifier"]["versions"]["product"]
    )
    assert metadata["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [f"src/{package}"]
    assert (folder / "README.md").is_file()
    assert (folder / "src" / package / "py.typed").is_file()


@every_module
def test_an_entry_point_says_which_module_it_mounts(module: Module) -> None:
    name = module.module_id.replace("-", "_")
    family = f"amplifier_module_{module.folder.name}"
    alone = f"amplifier_module_{name}"

    assert module.package == (f"{family}.{name}" if module.is_of_family else alone)


@every_module
def test_the_page_has_the_four_headings_in_order(module: Module) -> None:
    text = module.readme.read_text(encoding="utf-8")

    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


@every_module
def test_the_files_a_reader_looks_for_are_there(module: Module) -> None:
    files = [module.source / name for name in ("__init__.py", "config.py")]

    assert [path.name for path in files if not path.is_file()] == []
    assert list(module.tests.glob("test_*.py"))


@every_module
def test_the_package_declares_its_type_and_an_async_mount(module: Module) -> None:
    tree = ast.parse((module.source / "__init__.py").read_text(encoding="utf-8"))
    mounts = [n for n in tree.body if isinstance(n, ast.AsyncFunctionDef) and n.name == "mount"]
    types = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and [ast.unparse(target) for target in node.targets] == ["__amplifier_module_type__"]
    ]

    assert types == [KIND_TO_TYPE[module.module_id.partition("-")[0]]]
    assert len(mounts) == 1
    assert ast.get_docstring(tree), "a package opens with one sentence"
