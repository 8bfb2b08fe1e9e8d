"""The packages of modules: those that are installed, and the one that a fetched bundle has."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from amplifier_foundation.installation import install_command
from amplifier_foundation.sources.errors import AmbiguousModuleError, FetchError
from amplifier_foundation.sources.project import ENTRY_POINT_GROUP, read_project

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z_]\w*")
_FOLDERS = ("", "src", "lib")


class BundlePackages:
    """Finds the packages of bundles for `import`, after all other finders."""

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
        # Last, so that it hides no installed package. The root of the tree on `sys.path` instead
        # would make every folder in it importable.
        sys.meta_path.append(cast("Any", finders[0]))
    for package in packages:
        finders[0].add(package)


def bundle_packages(tree: Path) -> list[Path]:
    """Return the existing packages that a project file at the root of a tree declares.

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
    """Return the paths of a project's packages: those it lists, else one of its own name."""
    tool: dict[str, Any] = project.get("tool", {})
    wheel = tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    listed = wheel.get("packages", tool.get("setuptools", {}).get("packages"))
    if isinstance(listed, list):
        return [str(each).replace(".", "/") for each in cast("list[Any]", listed)]
    name = str(project.get("project", {}).get("name", ""))
    plain = re.sub(r"[-.]+", "_", name.lower())
    return [plain] if plain else []


def _is_package_of(tree: Path, package: Path) -> bool:
    """Return whether a path is a package below a tree that can be imported by its name."""
    if not _NAME.fullmatch(package.name) or not (package / "__init__.py").is_file():
        return False
    return package.resolve().is_relative_to(tree.resolve())


class InstalledModule(NamedTuple):
    """A module that a distribution declares; `path` is its package, found without importing.

    `location` is the folder on the import path that has the distribution.
    """

    module_id: str
    distribution: str
    version: str
    requirements: tuple[str, ...]
    path: Path
    location: Path


class InstalledModules:
    """The declarations of all installed distributions, read once."""

    def __init__(self) -> None:
        self._declared: dict[str, list[importlib.metadata.EntryPoint]] = {}
        for entry_point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
            self._declared.setdefault(entry_point.name, []).append(entry_point)

    def ids(self) -> list[str]:
        """Return the ids of all installed modules, sorted."""
        return sorted(self._declared)

    def find(self, module_id: str, distribution: str = "") -> InstalledModule | None:
        """Return the module of that id, or None.

        Raises:
            AmbiguousModuleError: more than one distribution declares it.
            FetchError: the named distribution does not declare it.
        """
        declared = self._declared.get(module_id, [])
        # A distribution that squats on the id of a module must not be taken by chance.
        owners = sorted({_distribution(entry_point).name for entry_point in declared})
        if len(owners) > 1:
            raise AmbiguousModuleError(module_id, owners)
        if distribution and [_canonical(owner) for owner in owners] != [_canonical(distribution)]:
            raise FetchError(
                f"`{module_id}` is not declared by an installed {distribution}.",
                why=f"It is declared by {owners[0]}." if owners else "Nobody declares it.",
                fix=install_command(distribution),
            )
        if not declared:
            return None
        owner = _distribution(declared[0])
        package = declared[0].value.partition(":")[0].partition(".")[0]
        path = _path_of(package, owner.name)
        requirements = tuple(owner.requires or ())
        location = Path(str(owner.locate_file("")))
        return InstalledModule(module_id, owner.name, owner.version, requirements, path, location)

    def package(self, distribution: str) -> Path:
        """Return the folder of the package that is named like its distribution.

        Raises:
            FetchError: there is none.
        """
        return _path_of(_canonical(distribution).replace("-", "_"), distribution)


def _path_of(package: str, distribution: str) -> Path:
    """Return the folder or file of an installed top-level package."""
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec is not None and spec.origin is not None:
        return Path(spec.origin)
    raise FetchError(
        f"{distribution} has no package `{package}`.",
        why="It is not installed, or only in part.",
        fix=install_command("--force-reinstall", "--no-deps", distribution),
    )


def _distribution(entry_point: importlib.metadata.EntryPoint) -> importlib.metadata.Distribution:
    assert entry_point.dist is not None  # `entry_points()` gives each the one it was read from
    return entry_point.dist


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
