"""Installed modules: which distribution declares a module, and where its package lies."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import NamedTuple

from amplifier_foundation.installation import install_command
from amplifier_foundation.sources.errors import AmbiguousModuleError, FetchError
from amplifier_foundation.sources.project import ENTRY_POINT_GROUP

__all__ = ["InstalledModule", "InstalledModules"]


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
            FetchError: it is not the named distribution that declares it.
        """
        declared = self._declared.get(module_id, [])
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
    """Return the folder, or the file, of an installed top-level package."""
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
