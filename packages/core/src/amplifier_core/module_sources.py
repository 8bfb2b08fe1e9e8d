"""Where modules come from: the contracts between the loader and an app's resolver."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, Protocol

from amplifier_core._structural import structural
from amplifier_core.errors import (
    ModuleLoadError,
    ModuleNotFoundError,  # noqa: A004 - the name is fixed by the source contract
)

__all__ = [
    "FileSystemModuleSource",
    "ModuleLoadError",
    "ModuleNotFoundError",
    "ModuleSource",
    "ModuleSourceResolver",
]


@structural
class ModuleSource(Protocol):
    """One place that has one module; any object with `resolve` will do.

    It may also say what an app read from the module's project file, which the kernel does not
    parse: `package_dir`, the Path of the package, and `entry_point`, as in `package.part:mount`.
    """

    @abstractmethod
    def resolve(self) -> Path:
        """Return the local directory of the module, fetched first if necessary.

        Raises:
            ModuleNotFoundError: there is no such module.
            OSError: the directory cannot be read.
        """
        ...


@structural
class ModuleSourceResolver(Protocol):
    """The app's policy for finding modules, mounted at `module-source-resolver`."""

    def resolve(
        self, module_id: str, source_hint: Any = None, profile_hint: Any = None
    ) -> ModuleSource:
        """Return where `module_id` is; both hints carry the mount plan's `source`.

        The same arguments give the same answer. `profile_hint` is the older name; a resolver may
        take either or both, and may offer `async_resolve` with the same arguments.

        Raises:
            ModuleNotFoundError: this resolver does not have the module.
        """
        ...


class FileSystemModuleSource:
    """Directories in which to search for modules, and the paths that mentions stand for."""

    def __init__(self, paths: list[str] | None = None) -> None:
        self._paths = list(paths or [])
        self._mention_mappings: dict[str, str] = {}

    def get_module_paths(self) -> list[str]:
        """Return the directories, in the order of search."""
        return list(self._paths)

    def get_mention_mappings(self) -> dict[str, str]:
        """Return what each mention stands for; none unless a subclass adds some."""
        return dict(self._mention_mappings)
