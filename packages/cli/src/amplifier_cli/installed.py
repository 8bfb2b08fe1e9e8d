"""Find modules that are installed or in a folder, without importing them."""

from __future__ import annotations

import ast
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_cli.failures import CommandError
from amplifier_foundation.sources.project import ENTRY_POINT_GROUP, find_package, module_type

__all__ = ["FoundModule", "InstalledModule", "find_module", "installed_modules"]


class InstalledModule(NamedTuple):
    """A module's metadata, from its distribution."""

    module_id: str
    version: str
    distribution: str
    summary: str
    entry_point: EntryPoint


class FoundModule(NamedTuple):
    """A module on disk: its package, its type if known, its project folder, its entry point."""

    module_id: str
    type: str | None
    package: Path
    folder: Path
    entry_point: str | None = None
    config: dict[str, Any] | None = None


def installed_modules() -> list[InstalledModule]:
    """Return every installed module, sorted by id; one that two distributions claim twice."""
    found: list[InstalledModule] = []
    for each in entry_points(group=ENTRY_POINT_GROUP):
        name = version = summary = ""
        if each.dist is not None:
            metadata = each.dist.metadata
            name, version, summary = (metadata[key] or "" for key in ("Name", "Version", "Summary"))
        found.append(InstalledModule(each.name, version, name, _own_summary(each) or summary, each))
    return sorted(found, key=lambda module: (module.module_id, module.distribution))


def find_module(where: str, kind: str | None = None, module_id: str | None = None) -> FoundModule:
    """Return the module in a folder, or the installed one of this id.

    `kind` is its type if the caller knows it; `module_id` chooses among several in a folder.

    Raises:
        CommandError: there is none.
    """
    path = Path(where)
    if path.is_dir():
        found = _module_in(path.resolve(), module_id)
    else:
        found = _installed_module(where)
    if found is None:
        raise CommandError(
            f"There is no module `{where}`.",
            why="It is neither installed nor a folder with a package of a module.",
            fix="amplifier module list",
        )
    if kind is None:
        return found
    return found._replace(type=kind)


def package_of(entry_point: EntryPoint) -> Path | None:
    """Return the folder of the package that an entry point names; None if it does not exist."""
    # `find_spec` of a dotted name would import its parent, so only the top package is looked up.
    spec = find_spec(entry_point.module.partition(".")[0])
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def _own_summary(entry_point: EntryPoint) -> str:
    """Return the module's own summary if its distribution has several modules, else nothing."""
    _, *parts = entry_point.module.split(".")
    package = package_of(entry_point)
    if not parts or package is None:
        return ""
    # Parsed, not imported: listing modules must not run their code.
    source = package.joinpath(*parts, "__init__.py")
    try:
        docstring = ast.get_docstring(ast.parse(source.read_bytes())) or ""
    except (OSError, SyntaxError, ValueError):
        return ""
    summary = docstring.partition("\n")[0].removeprefix(f"{entry_point.name}: ")
    return summary[:1].upper() + summary[1:]


def _module_in(folder: Path, module_id: str | None) -> FoundModule | None:
    found = find_package(folder, module_id)
    if found is None:
        return None
    kind = module_type(found.module_id, found.package)
    return FoundModule(found.module_id, kind, found.package, folder, found.entry_point)


def _installed_module(module_id: str) -> FoundModule | None:
    for each in entry_points(group=ENTRY_POINT_GROUP, name=module_id):
        package = package_of(each)
        if package is not None:
            kind = module_type(module_id, package)
            return FoundModule(module_id, kind, package, _project_of(package), each.value)
    return None


def _project_of(package: Path) -> Path:
    parents = (package.parent, package.parent.parent)
    return next((each for each in parents if (each / "pyproject.toml").is_file()), package.parent)
