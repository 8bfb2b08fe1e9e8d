"""The resolver of module sources: checks modules against the lock before they are imported."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_core.errors import (
    ModuleNotFoundError,  # noqa: A004 - the name is fixed by the source contract
)
from amplifier_foundation import paths
from amplifier_foundation.config.plain_files import require_own_folder
from amplifier_foundation.sources.content import content_hash
from amplifier_foundation.sources.errors import (
    DriftError,
    FetchError,
    MissingSourceError,
    ModuleSourceError,
    UnpinnedError,
    command_for,
)
from amplifier_foundation.sources.fetch import LIMITS, Limits, ProgressListener
from amplifier_foundation.sources.fetched import Cache, FetchedSources, Tree
from amplifier_foundation.sources.libraries import check_kernel, required_by, required_in
from amplifier_foundation.sources.local import local_path
from amplifier_foundation.sources.lock import LOCK_NAME, Lock, Pin, check_pin, pins_fully
from amplifier_foundation.sources.project import find_package, read_project
from amplifier_foundation.sources.uri import Source, parse_source

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from amplifier_foundation.sources.granted import ProjectCode
    from amplifier_foundation.sources.inspection import Finding
    from amplifier_foundation.sources.package import InstalledModule, InstalledModules

__all__ = ["LocatedModule", "SourceResolver"]

_INSTALLED = Source("package", "")


class LocatedModule(NamedTuple):
    """A module that was found and passed every check; the kernel's `ModuleSource`.

    `path` is the module's folder, for an installed one that of its package. `package_dir` and
    `entry_point` are from its project file, which the kernel does not read.
    """

    module_id: str
    source: Source
    path: Path
    pin: Pin | None = None
    version: str | None = None
    package_dir: Path | None = None
    entry_point: str | None = None

    def resolve(self) -> Path:
        """Return the module's folder."""
        return self.path


class SourceResolver:
    """Finds modules and bundles: installed, on disk, or fetched as `lock` pins them.

    Relative paths are relative to `base`; `overrides` gives modules another source than the plan
    does. With `pinning`, a bundle that is not in the lock is pinned instead of refused; modules are
    pinned by `pin` only. `code` decides what may be loaded from the project's folder; without it,
    everything may. All methods but `async_resolve` block, and may fetch.
    """

    def __init__(
        self,
        home: Path,
        *,
        base: Path | None = None,
        lock: Lock | None = None,
        overrides: Mapping[str, str] | None = None,
        pinning: bool = False,
        progress: ProgressListener | None = None,
        limits: Limits = LIMITS,
        code: ProjectCode | None = None,
    ) -> None:
        self._home = home
        self._code = code
        self.base = (base or Path.cwd()).resolve()
        self.lock = Lock(self.base / LOCK_NAME) if lock is None else lock
        self._overrides = dict(overrides or {})
        self._pinning = pinning
        # The bundle that the user named, which commands in messages have to repeat.
        self.bundle: str | None = None
        self._fetched = FetchedSources(Cache(paths.cache(home.resolve())), limits, progress)
        self._located: dict[tuple[str, Source], LocatedModule] = {}
        self._compared: set[Path] = set()

    def resolve(
        self, module_id: str, source_hint: Any = None, profile_hint: Any = None
    ) -> LocatedModule:
        """Return the location of a module that has a source of its own.

        Raises:
            ModuleNotFoundError: it is installed, and the loader finds it by its entry point; or
                it does not exist.
            ModuleSourceError: it must not be used; the message says why.
        """
        located = self.locate(module_id, profile_hint if source_hint is None else source_hint)
        if located.source.kind == "package":
            # To the kernel this means to look further, which leads to the entry point.
            raise ModuleNotFoundError(
                f"Module '{module_id}' is installed: its entry point leads to it.",
                module_id=module_id,
            )
        # Imported here because most sessions use installed modules only.
        from amplifier_foundation.sources.uninstalled import compile_apart  # noqa: PLC0415

        compile_apart(self._home)
        tree = self._tree_of(located)
        if tree is not None:
            from amplifier_foundation.sources.package import offer_packages  # noqa: PLC0415

            offer_packages(located.path, tree)
        self._require_libraries(located, tree)
        return located

    def libraries(self, module_id: str, source_hint: Any = None) -> list[Requirement]:
        """Return the libraries that a module and its bundle's package require and lack.

        Raises:
            ModuleNotFoundError: it does not exist.
            ModuleSourceError: it must not be used, or its project file cannot be read.
        """
        located = self.locate(module_id, source_hint)
        if located.source.kind == "package":
            return []
        tree = self._tree_of(located)
        from amplifier_foundation.sources.libraries import (  # noqa: PLC0415 - as above
            missing_libraries,
            required_libraries,
        )

        required = required_libraries(located.path, _provided(tree))
        if tree is not None and tree != located.path:
            required += required_libraries(tree)
        missing = missing_libraries(required)
        return [each for each in required if each.name in missing]

    async def async_resolve(
        self, module_id: str, source_hint: Any = None, profile_hint: Any = None
    ) -> LocatedModule:
        """Do what `resolve` does without blocking the event loop."""
        # Callers of this have it loaded; commands that only read a lock do without it.
        import asyncio  # noqa: PLC0415

        return await asyncio.to_thread(self.resolve, module_id, source_hint, profile_hint)

    def locate(self, module_id: str, source_hint: Any = None) -> LocatedModule:
        """Return the location of a module, installed or not, after all checks.

        Raises:
            ModuleNotFoundError: it does not exist.
            ModuleSourceError: it must not be used; the message says why.
        """
        source = self._source_of(module_id, source_hint)
        located = self._located.get((module_id, source))
        if located is None:
            located = self._located[module_id, source] = self._locate(module_id, source)
        return located

    def hints(self, module_id: str, source_hint: Any = None) -> list[Finding] | None:
        """Return hints from reading the code of a fetched module; None if it was not fetched.

        They are for the user who pins it and decide nothing: malicious code gives no hints (see
        `inspection`).
        """
        path = self.locate(module_id, source_hint).path
        if not path.is_relative_to(self._fetched.cache.folder):
            return None
        # Reads all code of a module, so only pinning pays for it.
        from amplifier_foundation.sources.inspection import inspect_module  # noqa: PLC0415

        return inspect_module(path)

    def installed_ids(self) -> list[str]:
        """Return the ids of all installed modules."""
        return self._installed.ids()

    def fetch(self, uri: str | Mapping[str, Any] | Source) -> Path:
        """Return the local folder, or file, of a bundle.

        Raises:
            SourceFormatError: this is not a source.
            MissingSourceError: it does not exist, and nothing is pinned for it.
            ModuleSourceError: it is not pinned, is not what is pinned, or is pinned and cannot be
                fetched: nobody can drop an include, with its guards, by making it unreachable.
        """
        source = parse_source(uri)
        if source.is_remote:
            name = str(source)
            if self._pinning:
                tree = self._pin_bundle(name, source)
            else:
                tree = self._pinned(name, source)
            found = tree.path / source.subdirectory
            if not found.exists():
                why = f"It has no `{source.subdirectory}` in commit {tree.commit}."
                raise MissingSourceError(f"There is no {name}.", why=why)
            return found
        try:
            if source.kind == "path":
                return self._path_of(source)
            return self._installed.package(source.location)
        except FetchError as error:
            raise MissingSourceError(error.message, why=error.why, fix=error.fix) from error

    def pin(self, module_id: str, source_hint: Any = None, *, update: bool = False) -> Pin:
        """Pin a module as it is now, and return the pin; `lock.write()` saves it.

        What is pinned by commit stays at its commit without `update`.
        """
        source = self._source_of(module_id, source_hint)
        old = self.lock.modules.get(module_id)
        if source.is_remote:
            pin = self._pin_fetched(module_id, source, None if update else old)
        else:
            pin = self._pin_local(module_id, source)
        self.lock.pin(module_id, pin)
        # Results so far were compared with the old pin.
        self._located.clear()
        return pin

    def _require_libraries(self, located: LocatedModule, tree: Path | None) -> None:
        from amplifier_foundation.sources.libraries import (  # noqa: PLC0415 - as above
            require_libraries,
            required_libraries,
        )

        required = required_libraries(located.path, _provided(tree))
        if required:
            command = command_for(f"amplifier module install {located.module_id}", self.bundle)
            require_libraries(located.module_id, required, self._home, command)

    def _tree_of(self, located: LocatedModule) -> Path | None:
        """Return the whole tree that a fetched module is in, which its pinned hash covers."""
        cache = self._fetched.cache.folder
        if not located.path.is_relative_to(cache):
            return None
        tree = cache / located.path.relative_to(cache).parts[0]
        if located.source.kind == "path" and tree not in self._compared:
            # The tree was compared when its bundle was loaded, and may have changed since.
            found = self._fetched.cache.hash_of(tree.name) or "not there"
            if found != tree.name:
                what = "content in the cache"
                raise DriftError(located.module_id, what, expected=tree.name, found=found)
            self._compared.add(tree)
        return tree

    def _pin_bundle(self, name: str, source: Source) -> Tree:
        pin = self.lock.bundles.get(name)
        try:
            tree = self._current(source, pin)
        except FetchError as error:
            # What was pinned once is never left out as missing.
            if pin is not None:
                raise
            self.lock.note_missing(name, error)
            raise MissingSourceError(error.message, why=error.why) from error
        self.lock.missing.pop(name, None)
        self.lock.bundles[name] = Pin(name, tree.sha256, tree.commit)
        return tree

    def _pinned(self, name: str, source: Source) -> Tree:
        pin = self.lock.bundles.get(name)
        if pins_fully(pin, source):
            return self._fetched.pinned(name, source, pin)
        self.lock.refuse_missing(name)
        raise UnpinnedError(name, name, self.bundle)

    def _source_of(self, module_id: str, source_hint: Any) -> Source:
        given = self._overrides.get(module_id, source_hint)
        if given is None:
            return _INSTALLED
        return parse_source(given)

    def _locate(self, module_id: str, source: Source) -> LocatedModule:
        if source.kind == "package":
            located = self._installed_module(module_id, source)
        elif source.kind == "path":
            located = self._module_on_disk(module_id, source)
        else:
            located = self._fetched_module(module_id, source)
        if source.kind == "package":
            return located
        check_kernel(module_id, required_in(located.path))
        found = find_package(located.path, module_id)
        if found is None:
            # The kernel reports what is missing.
            return located
        return located._replace(package_dir=found.package, entry_point=found.entry_point)

    def _installed_module(self, module_id: str, source: Source) -> LocatedModule:
        found = self._find_installed(module_id, source)
        if self._code is not None:
            self._code.admit_installed(found)
        pin = self.lock.modules.get(module_id)
        source = Source("package", found.distribution)
        if pin is not None:
            check_pin(module_id, pin, source=str(source), sha256=content_hash(found.path))
        check_kernel(module_id, required_by(found.requirements))
        return LocatedModule(module_id, source, found.path, pin, found.version)

    def _find_installed(self, module_id: str, source: Source) -> InstalledModule:
        found = self._installed.find(module_id, source.location)
        if found is not None:
            return found
        if module_id in self.lock.modules:
            # After ModuleNotFoundError, the kernel might find another module that nobody pinned.
            check_pin(module_id, self.lock.modules[module_id], source="not installed")
        if self._code is not None:
            self._code.refuse_searched(module_id)
        raise ModuleNotFoundError(
            f"Module '{module_id}' is not installed, and no source is named for it.",
            module_id=module_id,
            tried=("installed distributions",),
        )

    def _module_on_disk(self, module_id: str, source: Source) -> LocatedModule:
        path = self._path_of(source)
        require_own_folder(self.base / Path(source.location).expanduser(), ModuleSourceError)
        pin = self.lock.modules.get(module_id)
        if pin is not None:
            check_pin(module_id, pin, source=self.lock.portable(path), sha256=content_hash(path))
        if self._code is not None:
            path = self._code.admit(module_id, path)
        return LocatedModule(module_id, source, path, pin)

    def _fetched_module(self, module_id: str, source: Source) -> LocatedModule:
        pin = self.lock.modules.get(module_id)
        if not pins_fully(pin, source):
            self.lock.refuse_missing(module_id)
            raise UnpinnedError(module_id, str(source), self.bundle)
        # Before anything is fetched: the plan may name another branch than the lock.
        check_pin(module_id, pin, source=str(source))
        path = _within(self._fetched.pinned(module_id, source, pin), source)
        _require_package_below(module_id, path, source)
        return LocatedModule(module_id, source, path, pin)

    def _pin_local(self, module_id: str, source: Source) -> Pin:
        if source.kind == "package":
            found = self._find_installed(module_id, source)
            owner = str(Source("package", found.distribution))
            return Pin(owner, content_hash(found.path), version=found.version)
        path = self._path_of(source)
        return Pin(self.lock.portable(path), content_hash(path))

    def _pin_fetched(self, module_id: str, source: Source, old: Pin | None) -> Pin:
        tree = self._current(source, old)
        _require_package_below(module_id, _within(tree, source), source)
        return Pin(str(source), tree.sha256, tree.commit)

    def _current(self, source: Source, pin: Pin | None) -> Tree:
        if pins_fully(pin, source) and pin.source == str(source):
            return self._fetched.restored(source, pin)
        return self._fetched.newest(source)

    @cached_property
    def _installed(self) -> InstalledModules:
        # Reading metadata is slow to import, and a plan may name a source for everything.
        from amplifier_foundation.sources.package import InstalledModules  # noqa: PLC0415

        return InstalledModules()

    def _path_of(self, source: Source) -> Path:
        path = local_path(source, self.base)
        if not path.exists():
            raise FetchError(f"There is no {path}.", why=f"The source `{source}` leads there.")
        return path


def _provided(tree: Path | None) -> list[str]:
    """Return the distribution whose package a fetched bundle provides for its modules."""
    if tree is None:
        return []
    return [str(read_project(tree).get("project", {}).get("name", ""))]


def _within(tree: Tree, source: Source) -> Path:
    path = tree.path / source.subdirectory
    if not path.exists():
        raise FetchError(
            f"{source} has no `{source.subdirectory}`.", why=f"Looked into commit {tree.commit}."
        )
    return path


def _require_package_below(module_id: str, path: Path, source: Source) -> None:
    """Raise if a fetched tree is the package itself: its name would be the hash of the tree."""
    if not source.subdirectory and (path / "__init__.py").is_file():
        raise FetchError(
            f"`{module_id}` is not loaded from {source}.",
            why="Its package has no folder of its own there, and so no name.",
            module_id=module_id,
        )
