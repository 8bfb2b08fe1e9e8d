"""The modules that are installed or lie in a folder, found without importing one of them."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from amplifier_cli.failures import CommandError

__all__ = ["FoundModule", "InstalledModule", "find_module", "installed_modules"]

_TYPE = re.compile(r"""^__amplifier_module_type__\s*=\s*["'](\w+)["']""", re.MULTILINE)
_TYPES = {"loop": "orchestrator", "hooks": "hook"}
_GROUP = "amplifier.modules"


class InstalledModule(NamedTuple):
    """What its distribution says of a module."""

    module_id: str
    version: str
    distribution: str
    summary: str
    entry_point: EntryPoint


class FoundModule(NamedTuple):
    """A module on disk: its package, its type, and the folder of its project."""

    module_id: str
    type: str
    package: Path
    folder: Path


def installed_modules() -> list[InstalledModule]:
    """Return every installed module, by id; one that two distributions claim is there twice."""
    found: list[InstalledModule] = []
    for each in entry_points(group=_GROUP):
        metadata = None if each.dist is None else each.dist.metadata
        name, version, summary = (
            ("", "", "")
            if metadata is None
            else (metadata[key] or "" for key in ("Name", "Version", "Summary"))
        )
        found.append(InstalledModule(each.name, version, name, summary, each))
    return sorted(found, key=lambda module: (module.module_id, module.distribution))


def find_module(where: str) -> FoundModule:
    """Return the module in a folder, or the installed one of this id.

    Raises:
        CommandError: there is none.
    """
    path = Path(where)
    if path.is_dir():
        folder = path.resolve()
        module_id = folder.name.removeprefix("amplifier-module-")
        package = _package_in(folder)
    else:
        module_id = where
        package = next(map(package_of, entry_points(group=_GROUP, name=where)), None)
        folder = Path() if package is None else _project_of(package)
    if package is None:
        raise CommandError(
            f"There is no module `{where}`.",
            why="It is neither a folder with an `amplifier_module_*` package nor installed.",
            fix="amplifier module list",
        )
    return FoundModule(module_id, _type_of(module_id, package), package, folder)


def package_of(entry_point: EntryPoint) -> Path | None:
    """Return the folder of the package that an entry point names; None when it is gone."""
    spec = find_spec(entry_point.module.partition(".")[0])
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _package_in(folder: Path) -> Path | None:
    if (folder / "__init__.py").is_file():
        return folder
    packages = (
        found
        for root in (folder, folder / "src")
        for found in sorted(root.glob("amplifier_module_*"))
    )
    return next((each for each in packages if (each / "__init__.py").is_file()), None)


def _project_of(package: Path) -> Path:
    parents = (package.parent, package.parent.parent)
    return next((each for each in parents if (each / "pyproject.toml").is_file()), package.parent)


def _type_of(module_id: str, package: Path) -> str:
    """Return the type that the package's text declares, else the one its id begins with."""
    declared = _TYPE.search((package / "__init__.py").read_text("utf-8"))
    first = module_id.partition("-")[0]
    return declared[1] if declared else _TYPES.get(first, first)
