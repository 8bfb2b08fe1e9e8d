"""Libraries that modules from elsewhere require: which are missing, and the private environment.

What a module's project file requires is not installed automatically. `amplifier module install`
puts it into a folder of the user's own, which is at the end of the import path of the sessions that
use such a module. What comes with the product is found first, and is never replaced.
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

from amplifier_core import __version__ as kernel_version
from amplifier_foundation import paths
from amplifier_foundation.config.plain_files import require_own
from amplifier_foundation.installation import own_versions
from amplifier_foundation.sources.errors import KernelMismatchError, ModuleSourceError
from amplifier_foundation.sources.project import read_project

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# The public part of the kernel's version is the version of the contract that it implements.
CONTRACT = kernel_version.partition("+")[0]

_KERNEL = re.compile(r"amplifier[-_.]core\s*\(?\s*([<>=!~][^;)@]*)", re.IGNORECASE)


def required_in(folder: Path) -> str | None:
    """Return the range of kernels that the module in a folder requires; None for any."""
    content = read_project(folder)
    if content:
        stated = content.get("tool", {}).get("amplifier", {}).get("requires_kernel")
        dependencies = content.get("project", {}).get("dependencies", [])
        return stated or required_by(dependencies)
    for metadata in sorted(folder.glob("*.dist-info/METADATA")):
        head = metadata.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        return required_by(re.findall(r"^Requires-Dist:\s*(.*)$", head, re.MULTILINE))
    return None


def required_by(requirements: Iterable[str]) -> str | None:
    """Return the range of kernels that a distribution requires; None for any."""
    for requirement in requirements:
        found = _KERNEL.match(requirement)
        if found is not None:
            return found[1].strip()
    return None


def check_kernel(module_id: str, required: str | None) -> None:
    """Compare a range with the version of the contract that this kernel implements.

    Raises:
        KernelMismatchError: it is outside of the range.
        ModuleSourceError: the text is not a valid range.
    """
    if required in (None, f"=={kernel_version}"):
        return
    # Slow to import, and our own modules pin this very kernel.
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415

    try:
        accepted = SpecifierSet(required)
    except InvalidSpecifier as error:
        raise ModuleSourceError(
            f"`{module_id}` is not loaded: `{required}` is not a range of versions.",
            why="A range looks like `>=2,<3`.",
        ) from error
    # The label counts for a range that names one; any other range sees the contract's version.
    if not accepted.contains(kernel_version, prereleases=True):
        raise KernelMismatchError(module_id, required=required, contract=CONTRACT)


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

    `provided` are distributions that are available otherwise, such as the package of a bundle.

    Raises:
        ModuleSourceError: the project file cannot be read, or has an invalid requirement.
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
    # Versions are not compared: published modules declare narrower ranges than they need.
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
    """Check that a module finds its libraries, adding the private environment if it needs that.

    Raises:
        MissingLibrariesError: some of them are not installed.
        ModuleSourceError: another user could have written the private environment.
    """
    missing = missing_libraries(required)
    if missing:
        for folder in library_folders(home):
            require_own(folder, ModuleSourceError)
            # Appended, so that no library takes the place of what comes with the product.
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
    """Return the folders of an environment, finished or not, that have packages."""
    # `lib64` is often a link to `lib`, whose packages must not be listed twice.
    found = [*folder.glob("lib*/python*/*-packages"), *folder.glob("local/lib*/python*/*-packages")]
    return sorted(each for each in found if not each.parent.parent.is_symlink())


def recorded_requirements(home: Path) -> dict[str, list[str]]:
    """Return the requirements, by module, that the private environment was made for."""
    try:
        text = (environment_folder(home) / RECORD).read_text(encoding="utf-8")
        found: dict[str, list[str]] = json.loads(text)
    except (OSError, ValueError):
        return {}
    return found


def canonical(name: str) -> str:
    """Return the normalized name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
