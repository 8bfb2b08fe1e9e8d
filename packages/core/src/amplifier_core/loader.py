"""The module loader: from a module's id to the function that mounts it."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from amplifier_core import _discovery as discovery
from amplifier_core._discovery import TYPE_TO_MOUNT_POINT, declared_type, guess_type
from amplifier_core._tasks import maybe_await
from amplifier_core.errors import (
    MODULE_FAILURE_REASONS,
    ModuleLoadError,
    ModuleNotFoundError,  # noqa: A004 - the name is fixed by the source contract
    ModuleValidationError,
    error_text,
    module_failure_reason,
)
from amplifier_core.interfaces import accepts
from amplifier_core.models import ModuleInfo

__all__ = [
    "MODULE_FAILURE_REASONS",
    "TYPE_TO_MOUNT_POINT",
    "ModuleLoader",
    "ModuleValidationError",
    "declared_type",
    "guess_type",
    "module_failure_reason",
]

logger: logging.Logger = logging.getLogger(__name__)

MountFunction: TypeAlias = Callable[[Any], Awaitable[Any]]
ReadyFunction: TypeAlias = Callable[[Any], Awaitable[None]]

# The version of a module in a bare directory, which has no distribution.
_NO_VERSION = "1.0.0"

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass
class _Loaded:
    """A module's own functions, and the directory a resolver named for it."""

    module_id: str
    mount: Callable[..., Any]
    on_session_ready: ReadyFunction | None
    path: Path | None = None

    def bind(self, config: dict[str, Any] | None) -> MountFunction:
        """Return the module's mount with its config, as a function of the coordinator alone."""
        # A copy, because modules write into their config, and the mount plan is not theirs.
        own_config = dict(config or {})

        def mount(coordinator: Any) -> Awaitable[Any]:
            return maybe_await(self.mount(coordinator, own_config))

        if self.on_session_ready is not None:
            mount.__on_session_ready__ = (self.module_id, self.on_session_ready)  # type: ignore[attr-defined]
        return mount


class ModuleLoader:
    """Finds modules: through the mounted resolver, by entry point, by name, in search paths.

    One loader serves one session, or several that want the same modules.
    """

    def __init__(
        self,
        coordinator: Any = None,
        search_paths: Iterable[str | Path] | None = None,
    ) -> None:
        # It has the resolver. Published code reads it under either name.
        self._coordinator = coordinator
        self.coordinator = coordinator
        self._search_paths = None if search_paths is None else list(search_paths)
        self._loaded_modules: dict[str, _Loaded] = {}
        self._added_paths: list[str] = []
        self._on_session_ready_queue: list[tuple[str, ReadyFunction]] = []

    async def load(
        self,
        module_id: str,
        config: dict[str, Any] | None = None,
        source_hint: Any = None,
        coordinator: Any = None,
        *,
        profile_source: Any = None,
    ) -> MountFunction:
        """Return an async function of one argument that mounts `module_id` with `config`.

        It carries `__on_session_ready__ = (module_id, function)` if the module has one.
        `profile_source` is the older name of `source_hint`.

        Raises:
            ModuleNotFoundError: no source has the module.
            ModuleLoadError: it was found, and its code does not load.
            ModuleValidationError: it was found, and breaks the contract of its kind.
        """
        resolver = self._resolver(coordinator)
        try:
            if resolver is None:
                return await self._load_direct(module_id, config)
            hint = profile_source if source_hint is None else source_hint
            loaded = await self._load_resolved(module_id, resolver, hint)
        except Exception as error:
            logger.error("Failed to load module '%s': %s", module_id, error_text(error))
            raise
        return loaded.bind(config)

    async def discover(self) -> list[ModuleInfo]:
        """Return the modules that entry points and search paths offer, by id.

        No module's code runs: types are read from the source, else guessed from the ids.
        """
        found: dict[str, ModuleInfo] = {}
        for module_id, entry_point in discovery.installed_modules().items():
            distribution = getattr(entry_point, "dist", None)
            version = _NO_VERSION if distribution is None else distribution.version
            found[module_id] = _info(module_id, version, discovery.package_dir_of(entry_point))
        for module_id, package in discovery.modules_below(self._directories()):
            found.setdefault(module_id, _info(module_id, _NO_VERSION, package))
        return list(found.values())

    async def initialize(self, mount: MountFunction, coordinator: Any) -> Any:
        """Mount on `coordinator` and return what the module's mount returned."""
        try:
            return await mount(coordinator)
        except Exception:
            logger.exception("module mount failed")
            raise

    def cleanup(self) -> None:
        """Remove the directories that this loader added to the import path."""
        for path in self._added_paths:
            discovery.stop_searching(path)
        self._added_paths.clear()

    def enqueue_on_session_ready(self, module_id: str, ready: ReadyFunction) -> None:
        """Call `ready` when every module is mounted."""
        self._on_session_ready_queue.append((module_id, ready))

    def get_on_session_ready_queue(self) -> list[tuple[str, ReadyFunction]]:
        """Return the functions to call when every module is mounted, in mount order."""
        return list(self._on_session_ready_queue)

    def clear_on_session_ready_queue(self) -> None:
        """Empty the queue."""
        self._on_session_ready_queue.clear()

    def _directories(self) -> list[str | Path]:
        if self._search_paths is not None:
            return self._search_paths
        # Part of the loader's contract: the one setting that the kernel reads by itself.
        return [path for path in os.environ.get("AMPLIFIER_MODULES", "").split(":") if path]

    def _resolver(self, coordinator: Any) -> Any:
        owner = self.coordinator or coordinator
        if owner is None:
            return None
        try:
            return owner.get("module-source-resolver")
        except ValueError:
            # Another implementation of a coordinator may lack this mount point.
            return None

    async def _load_direct(
        self, module_id: str, config: dict[str, Any] | None = None
    ) -> MountFunction:
        """Load without a resolver. The contract names this method; subclasses override it."""
        loaded = self._loaded_modules.get(module_id)
        if loaded is None or loaded.path is not None:
            loaded = self._find(module_id)
            self._loaded_modules[module_id] = loaded
        return loaded.bind(config)

    def _find(self, module_id: str) -> _Loaded:
        loaded = self._load_entry_point(module_id) or self._load_filesystem(module_id)
        if loaded is None:
            # It may have been installed since the metadata was read.
            discovery.forget_installed_modules()
            loaded = self._load_entry_point(module_id)
        if loaded is None:
            raise ModuleNotFoundError(
                f"Module '{module_id}' not found via entry points or filesystem. "
                f"Install the package that declares it, or mount a module-source-resolver.",
                module_id=module_id,
                tried=(
                    "entry points",
                    discovery.package_name(module_id),
                    *map(str, self._directories()),
                ),
            )
        return loaded

    def _load_entry_point(self, module_id: str) -> _Loaded | None:
        entry_point = discovery.installed_modules().get(module_id)
        if entry_point is None:
            return None
        try:
            mount = entry_point.load()
        except Exception as error:
            raise ModuleLoadError(
                f"Module '{module_id}' is installed but its entry point "
                f"`{entry_point.value}` failed to load: {error}",
                module_id=module_id,
                reason_code="invalid_entry_point",
            ) from error
        module = sys.modules.get(getattr(mount, "__module__", ""))
        return _Loaded(module_id, mount, discovery.usable_ready(module_id, module))

    def _load_filesystem(self, module_id: str) -> _Loaded | None:
        name = discovery.package_name(module_id)
        package = discovery.import_by_name(name)
        if package is None:
            for directory in discovery.directories_of(module_id, self._directories()):
                found = discovery.find_package_dir(module_id, directory)
                if found is not None:
                    package = self._import_from(found)
                    break
        mount = getattr(package, "mount", None)
        if mount is None:
            return None
        return _Loaded(module_id, mount, discovery.usable_ready(module_id, package))

    async def _load_resolved(self, module_id: str, resolver: Any, hint: Any) -> _Loaded:
        """Load the module from its resolved source; if the resolver lacks it, find it directly."""
        try:
            source = await _ask_resolver(resolver, module_id, hint)
        except ModuleNotFoundError as unknown:
            try:
                return self._find(module_id)
            except ModuleNotFoundError:
                raise unknown from None
        path = Path(await maybe_await(source.resolve()))
        known = self._loaded_modules.get(module_id)
        if known is not None and known.path is not None:
            if known.path != path:
                raise ModuleLoadError(
                    f"Refusing to load '{module_id}' from {path}: it is loaded from {known.path}.",
                    module_id=module_id,
                )
            return known
        discovery.check_transport(module_id, path)
        # A source may name the package, which then can have any name.
        directory = getattr(source, "package_dir", None)
        if not isinstance(directory, Path):
            directory = discovery.find_package_dir(module_id, path)
        if directory is None:
            raise ModuleValidationError(
                f"Module '{module_id}' has no valid Python package at {path}",
                module_id=module_id,
                reason_code="invalid_package_layout",
            )
        package = self._import_from(directory)
        module, mount = discovery.find_mount(package, getattr(source, "entry_point", None))
        discovery.check_package(module_id, module, mount)
        loaded = _Loaded(module_id, mount, discovery.usable_ready(module_id, module), path)
        self._loaded_modules[module_id] = loaded
        return loaded

    def _import_from(self, directory: Path) -> ModuleType:
        # A module may import packages that are beside its own.
        root = str(directory.parent)
        if root not in self._added_paths:
            discovery.search(root)
            self._added_paths.append(root)
        return discovery.import_package(directory)


async def _ask_resolver(resolver: Any, module_id: str, hint: Any) -> Any:
    """Call a resolver, with the hint under the parameter name that it uses.

    Published resolvers call it `source_hint` or `profile_hint`; the contract passes it second.
    """
    resolve = getattr(resolver, "async_resolve", None) or resolver.resolve
    hints = {name: hint for name in ("source_hint", "profile_hint") if accepts(resolve, name)}
    if hints:
        return await maybe_await(resolve(module_id, **hints))
    positional = [
        each.kind in _POSITIONAL for each in inspect.signature(resolve).parameters.values()
    ]
    if sum(positional) > 1:
        return await maybe_await(resolve(module_id, hint))
    return await maybe_await(resolve(module_id))


def _info(module_id: str, version: str, package: Path | None) -> ModuleInfo:
    kind: Any = declared_type(package) or guess_type(module_id) or "tool"
    return ModuleInfo(
        id=module_id,
        name=module_id.replace("-", " ").title(),
        version=version,
        type=kind,
        mount_point=TYPE_TO_MOUNT_POINT[kind],
        description=f"Module: {module_id}",
    )
