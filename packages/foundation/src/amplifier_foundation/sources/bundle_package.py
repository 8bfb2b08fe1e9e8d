"""The Python package that a fetched bundle has for its own modules.

A repository of a bundle may have a project file at its root, with a package that its modules
import. Only the packages that the project file declares can be imported, not whatever else is in
the repository, and only after everything that is installed: no package of a repository takes the
place of another. They are files of a tree that was compared with its pinned hash.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from amplifier_foundation.sources.project import read_project

__all__ = ["BundlePackages", "bundle_packages", "declared_packages", "offer_packages"]

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z_]\w*")
_FOLDERS = ("", "src", "lib")


class BundlePackages:
    """Finds the packages of bundles for `import`, after all other finders have been asked."""

    def __init__(self) -> None:
        self._folders: dict[str, Path] = {}

    def add(self, package: Path) -> None:
        """Let a package be imported; the first of a name stays."""
        known = self._folders.setdefault(package.name, package)
        if known != package:
            logger.warning("package %s is taken from %s, not from %s", known.name, known, package)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a top-level package is; those inside of it are found by Python itself."""
        folder = None if path is not None else self._folders.get(name)
        if folder is None:
            return None
        return PathFinder.find_spec(name, [str(folder.parent)], target)


def offer_packages(module: Path, tree: Path) -> None:
    """Let the module at `module` import the packages of the bundle in whose tree it is.

    Raises:
        ModuleSourceError: the project file of the bundle cannot be read.
    """
    if module == tree:
        return
    packages = bundle_packages(tree)
    if not packages:
        return
    finders = [each for each in sys.meta_path if isinstance(each, BundlePackages)]
    if not finders:
        finders = [BundlePackages()]
        sys.meta_path.append(cast("Any", finders[0]))
    for package in packages:
        finders[0].add(package)


def bundle_packages(tree: Path) -> list[Path]:
    """Return the packages that a project file at the root of a tree declares, and that are there.

    Raises:
        ModuleSourceError: the project file cannot be read.
    """
    project = read_project(tree)
    if "project" not in project and "build-system" not in project:
        return []
    found: list[Path] = []
    for name in declared_packages(project):
        for folder in _FOLDERS:
            package = tree / folder / name
            if _is_package_of(tree, package):
                found.append(package)
                break
    return found


def declared_packages(project: dict[str, Any]) -> list[str]:
    """Return the paths of the packages of a project file: what it lists, else named like it."""
    tool: dict[str, Any] = project.get("tool", {})
    wheel = tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    listed = wheel.get("packages", tool.get("setuptools", {}).get("packages"))
    if isinstance(listed, list):
        return [str(each).replace(".", "/") for each in cast("list[Any]", listed)]
    name = str(project.get("project", {}).get("name", ""))
    plain = re.sub(r"[-.]+", "_", name.lower())
    return [plain] if plain else []


def _is_package_of(tree: Path, package: Path) -> bool:
    """Tell whether a path is a package below a tree that can be imported by its name."""
    if not _NAME.fullmatch(package.name) or not (package / "__init__.py").is_file():
        return False
    return package.resolve().is_relative_to(tree.resolve())
