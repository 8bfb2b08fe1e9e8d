"""Libraries that modules from elsewhere need: which are missing, and the private environment.

What a module's project file requires is not installed by itself. `amplifier module install` puts
it into a folder of the user's own, which is at the end of the import path of the sessions that use
such a module. What comes with the product is found first, and is never replaced.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from amplifier_foundation import paths
from amplifier_foundation.config.plain_files import require_own
from amplifier_foundation.installation import own_versions
from amplifier_foundation.sources.errors import ModuleSourceError
from amplifier_foundation.sources.project import read_project

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = [
    "RECORD",
    "MissingLibrariesError",
    "canonical",
    "environment_folder",
    "library_folders",
    "missing_libraries",
    "recorded_requirements",
    "require_libraries",
    "required_libraries",
    "site_folders",
]

# Which modules the environment was made for, and what they require.
RECORD = "libraries.json"

# The names under which the original project publishes what comes with this product.
_PROVIDED = frozenset({"amplifier-core", "amplifier-foundation"})


class MissingLibrariesError(ModuleSourceError):
    """A module requires libraries that are not installed."""

    def __init__(self, module_id: str, names: Iterable[str], command: str) -> None:
        needed = ", ".join(f"`{name}`" for name in names)
        super().__init__(
            f"`{module_id}` is not loaded: it requires {needed}.",
            why="Not installed, and libraries are installed only when you ask for it.",
            fix=command,
            module_id=module_id,
        )


def required_libraries(folder: Path, provided: Iterable[str] = ()) -> list[Requirement]:
    """Return what the project in a folder requires here, besides what comes with the product.

    `provided` are distributions that are there in another way, such as the package of a bundle.

    Raises:
        ModuleSourceError: the project file cannot be read, or has what is not a requirement.
    """
    written: Any = read_project(folder).get("project", {}).get("dependencies", [])
    if not written:
        return []
    # Slow to import, and many modules require nothing.
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

    ours = {*_PROVIDED, *map(canonical, own_versions()), *map(canonical, provided)}
    found: list[Requirement] = []
    for each in cast("list[Any]", written):
        try:
            requirement = Requirement(str(each))
        except InvalidRequirement as error:
            raise ModuleSourceError(
                f"{folder / 'pyproject.toml'} cannot be used.",
                why=f"`{each}` is not a requirement: {str(error).splitlines()[0]}.",
            ) from error
        applies = requirement.marker is None or requirement.marker.evaluate()
        if applies and canonical(requirement.name) not in ours:
            found.append(requirement)
    return found


def missing_libraries(required: Iterable[Requirement]) -> list[str]:
    """Return the names of those that are not installed where Python imports from."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - slow

    missing: list[str] = []
    for each in required:
        try:
            distribution(each.name)
        except PackageNotFoundError:
            missing.append(each.name)
    return missing


def require_libraries(
    module_id: str, required: list[Requirement], home: Path, command: str
) -> None:
    """Make sure that a module finds its libraries, with the private environment if it needs that.

    Raises:
        MissingLibrariesError: some of them are not installed.
        ModuleSourceError: another user could have written the private environment.
    """
    missing = missing_libraries(required)
    if missing:
        for folder in library_folders(home):
            require_own(folder, ModuleSourceError)
            if os.fspath(folder) not in sys.path:
                sys.path.append(os.fspath(folder))
        importlib.invalidate_caches()
        missing = missing_libraries(required)
    if missing:
        raise MissingLibrariesError(module_id, missing, command)


def environment_folder(home: Path) -> Path:
    """Return the folder of the private environment for this version of Python."""
    return paths.libraries(home.resolve()) / str(sys.implementation.cache_tag)


def library_folders(home: Path) -> list[Path]:
    """Return the folders of the private environment that packages are imported from."""
    folder = environment_folder(home)
    if (folder / RECORD).is_file():
        return site_folders(folder)
    return []


def site_folders(folder: Path) -> list[Path]:
    """Return the folders of an environment, finished or not, that packages are in."""
    found = [*folder.glob("lib*/python*/*-packages"), *folder.glob("local/lib*/python*/*-packages")]
    return sorted(each for each in found if not each.parent.parent.is_symlink())


def recorded_requirements(home: Path) -> dict[str, list[str]]:
    """Return what the private environment was made for: requirements by module."""
    try:
        text = (environment_folder(home) / RECORD).read_text(encoding="utf-8")
        found: dict[str, list[str]] = json.loads(text)
    except (OSError, ValueError):
        return {}
    return found


def canonical(name: str) -> str:
    """Return the one way to write the name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()
