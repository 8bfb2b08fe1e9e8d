"""Find the package of a module in a folder, by its project file or by the names of packages.

The kernel parses no project files. It gets the package and the entry point that are found here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.sources.errors import ModuleSourceError

__all__ = [
    "ENTRY_POINT_GROUP",
    "ModulePackage",
    "declared_modules",
    "find_package",
    "module_type",
    "read_project",
]

ENTRY_POINT_GROUP = "amplifier.modules"

_ENTRY_POINT = re.compile(r"(\w+)(\.\w+)*:\w+")
# How far below a project's folder a package may be, as in `lib/python/my_tool`.
_DEEPEST = 4
_NOT_SEARCHED = frozenset({"tests", "build", "dist", "venv", "node_modules", "__pycache__"})


class ModulePackage(NamedTuple):
    """The package of a module; `entry_point` is what its project declares, as `package:mount`."""

    module_id: str
    package: Path
    entry_point: str | None = None


def find_package(folder: Path, module_id: str | None = None) -> ModulePackage | None:
    """Return the package of a module in its folder, or None.

    Without `module_id` it is the only module that the project declares, else the one that is named
    like the folder.

    Raises:
        ModuleSourceError: the project file cannot be read, declares several modules and not this
            one, or names a package that does not exist.
    """
    wanted = module_id or folder.resolve().name.removeprefix("amplifier-module-")
    if (folder / "__init__.py").is_file():
        return ModulePackage(wanted, folder)
    declared = declared_modules(folder)
    if wanted in declared:
        return ModulePackage(wanted, *_declared_package(folder, wanted, declared[wanted]))
    if module_id is None and len(declared) == 1:
        (wanted,) = declared
        return ModulePackage(wanted, *_declared_package(folder, wanted, declared[wanted]))
    # Before the only declared module: a family may have this one undeclared, under its own name.
    package = _named_package(folder, wanted, exact=bool(declared))
    if package is not None:
        return ModulePackage(wanted, package)
    if len(declared) == 1:
        # A plan may call the only module of a project by another id.
        ((only, entry_point),) = declared.items()
        return ModulePackage(wanted, *_declared_package(folder, only, entry_point))
    if declared:
        raise ModuleSourceError(
            f"{folder} has several modules, and `{wanted}` is not one of them.",
            why=f"It declares {', '.join(sorted(declared))}.",
            module_id=wanted,
        )
    return None


def declared_modules(folder: Path) -> dict[str, str]:
    """Return the entry points of the modules that a project, or an unpacked wheel, declares.

    Raises:
        ModuleSourceError: the project file cannot be read.
    """
    project = read_project(folder)
    poetry = project.get("tool", {}).get("poetry", {}).get("plugins", {})
    groups = project.get("project", {}).get("entry-points", poetry)
    declared: dict[str, Any] = groups.get(ENTRY_POINT_GROUP, {})
    if declared:
        return {name: str(value).replace(" ", "") for name, value in declared.items()}
    for metadata in sorted(folder.glob("*.dist-info")):
        from importlib.metadata import Distribution  # noqa: PLC0415 - slow, and for wheels alone

        found = Distribution.at(metadata).entry_points.select(group=ENTRY_POINT_GROUP)
        return {each.name: each.value for each in found}
    return {}


def module_type(module_id: str, package: Path | None) -> str | None:
    """Return the type that a package declares, else the one that its id suggests, else None."""
    # Loads the kernel, which commands that only read a lock do without.
    from amplifier_core.loader import declared_type, guess_type  # noqa: PLC0415

    is_package = package is not None and _is_package(package)
    return (declared_type(package) if is_package else None) or guess_type(module_id)


def read_project(folder: Path) -> dict[str, Any]:
    """Return the content of a folder's pyproject.toml; an empty dict if there is none.

    Raises:
        ModuleSourceError: it cannot be read.
    """
    project = folder / "pyproject.toml"
    if not project.is_file():
        return {}
    # Installed modules have no project file to read.
    import tomllib  # noqa: PLC0415

    try:
        return tomllib.loads(project.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModuleSourceError(f"{project} cannot be read.", why=f"{error}.") from error


def _declared_package(folder: Path, module_id: str, entry_point: str) -> tuple[Path, str]:
    """Return the package that an entry point names, and the entry point.

    Raises:
        ModuleSourceError: it is malformed, or this folder has no such package.
    """
    named = _ENTRY_POINT.fullmatch(entry_point)
    if named is None:
        raise ModuleSourceError(
            f"`{module_id}` is not loaded from {folder}.",
            why=f"Its entry point `{entry_point}` does not look like `package:mount`.",
            module_id=module_id,
        )
    package = next(_packages_named(folder, named[1]), None)
    if package is None:
        raise ModuleSourceError(
            f"`{module_id}` is not loaded from {folder}.",
            why=f"Its entry point `{entry_point}` names the package `{named[1]}`, and there is "
            f"no folder `{named[1]}` with an __init__.py.",
            module_id=module_id,
        )
    return package, entry_point


def _packages_named(folder: Path, name: str) -> Iterator[Path]:
    """Yield the packages of a name: flat, below `src`, then in custom layouts."""
    for root in (folder, folder / "src"):
        if _is_package(root / name):
            yield root / name
    waiting = [folder]
    for _ in range(_DEEPEST):
        waiting = [child for root in waiting for child in _searched_folders(root)]
        yield from (root / name for root in waiting if _is_package(root / name))


def _searched_folders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    searched = [each for each in names if each not in _NOT_SEARCHED and not each.startswith(".")]
    return [folder / name for name in sorted(searched)]


def _named_package(folder: Path, module_id: str, *, exact: bool) -> Path | None:
    """Return the package that has the conventional name of a module, or None."""
    underscored = module_id.replace("-", "_")
    names = [f"amplifier_module_{underscored}", underscored]
    # Where modules are declared, any other `amplifier_module_*` is another member of the family.
    if not exact:
        names.insert(1, "amplifier_module_*")
    for name in names:
        for root in (folder, folder / "src"):
            for found in sorted(root.glob(name)):
                if _is_package(found):
                    return found
    return None


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()
