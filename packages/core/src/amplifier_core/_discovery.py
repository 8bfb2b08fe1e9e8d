"""Finding the code of a module, and checking it before it is mounted."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from amplifier_core.errors import ModuleLoadError, ModuleValidationError, describe_error

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "amplifier.modules"

TYPE_TO_MOUNT_POINT = {
    "orchestrator": "orchestrator",
    "provider": "providers",
    "tool": "tools",
    "hook": "hooks",
    "context": "context",
    "resolver": "module-source-resolver",
}

_DECLARED_TYPE = re.compile(r"""^__amplifier_module_type__\s*=\s*["'](\w+)["']""", re.MULTILINE)

# Words in the id of a module that suggest its type, in the order they are looked for.
_TELLING_WORDS = {
    "orchestrat": "orchestrator",
    "loop": "orchestrator",
    "provider": "provider",
    "tool": "tool",
    "hook": "hook",
    "context": "context",
    "resolver": "resolver",
}


def package_name(module_id: str) -> str:
    """Return the name of the package of `module_id`."""
    return f"amplifier_module_{module_id.replace('-', '_')}"


def guess_type(module_id: str) -> str | None:
    """Guess a module's type from its id: by its first part, else by any part."""
    for part in (module_id.partition("-")[0], module_id):
        for word, kind in _TELLING_WORDS.items():
            if word in part:
                return kind
    return None


def declared_type(package: Path | None) -> str | None:
    """Return the type that a package declares in its source, without running it."""
    if package is None:
        return None
    found = _DECLARED_TYPE.search((package / "__init__.py").read_text("utf-8", "replace"))
    return found[1] if found and found[1] in TYPE_TO_MOUNT_POINT else None


def package_dir_of(entry_point: EntryPoint) -> Path | None:
    """Return the directory of the package that an entry point names, without importing it."""
    try:
        spec = importlib.util.find_spec(entry_point.value.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        return None
    locations = None if spec is None else spec.submodule_search_locations
    directory = Path(next(iter(locations))) if locations else None
    return directory if directory and (directory / "__init__.py").is_file() else None


def installed_modules() -> dict[str, EntryPoint]:
    """Return the entry points of the installed modules by id; the first of equal ids wins.

    Reading the metadata of every installed distribution takes longer than starting a session, so
    it is cached for the process until the import path changes.
    """
    import importlib.metadata  # noqa: PLC0415 - an eighth of what importing the kernel costs

    return _read_entry_points(importlib.metadata.entry_points, tuple(sys.path))


def forget_installed_modules() -> None:
    """Drop the cache of `installed_modules`, so that the next call reads the metadata again."""
    _read_entry_points.cache_clear()


@lru_cache(maxsize=1)
def _read_entry_points(
    read: Callable[..., Iterable[EntryPoint]], search_path: tuple[str, ...]
) -> dict[str, EntryPoint]:
    # `search_path` is only a part of the cache's key.
    found: dict[str, EntryPoint] = {}
    for entry_point in read(group=ENTRY_POINT_GROUP):
        found.setdefault(entry_point.name, entry_point)
    return found


def find_package_dir(module_id: str, path: Path) -> Path | None:
    """Return the package directory of `module_id` in or at `path`, or None."""
    if not path.is_dir():
        return None
    if (path / "__init__.py").is_file():
        return path
    roots = (path, path / "src")
    exact = [root / package_name(module_id) for root in roots]
    others = [child for root in roots for child in sorted(root.glob("amplifier_module_*"))]
    # The layout of the module contracts: the package `my_tool` of the module `my-tool`.
    plain = [root / module_id.replace("-", "_") for root in roots]
    candidates = (*exact, *others, *plain)
    return next((each for each in candidates if (each / "__init__.py").is_file()), None)


def find_mount(package: ModuleType, entry_point: object) -> tuple[ModuleType, Any]:
    """Return the module and the function that an entry point such as `package.part:mount` names.

    Without an entry point, they are the package and its `mount`; a missing function is None.
    """
    named = entry_point if isinstance(entry_point, str) else ""
    part, _, function = named.rpartition(":")
    module = package
    if part.startswith(f"{package.__name__}."):
        try:
            module = importlib.import_module(part)
        except Exception as error:
            raise _import_failure(part, error) from error
    if not function.isidentifier():
        function = "mount"
    return module, getattr(module, function, None)


def directories_of(module_id: str, search_paths: Iterable[str | Path]) -> list[Path]:
    """Return where `module_id` would be found below the search paths."""
    names = (f"amplifier-module-{module_id}", module_id)
    return [Path(path) / name for path in search_paths for name in names]


def modules_below(search_paths: Iterable[str | Path]) -> Iterator[tuple[str, Path | None]]:
    """Yield the id and the package of every module directory below the search paths."""
    for path in map(Path, search_paths):
        if not path.is_dir():
            logger.warning("search path does not exist path=%s", path)
            continue
        for child in sorted(path.glob("amplifier-module-*")):
            module_id = child.name.removeprefix("amplifier-module-")
            yield module_id, find_package_dir(module_id, child)


def import_by_name(name: str) -> ModuleType | None:
    """Import an installed package; None if no package has that name.

    Raises:
        ModuleLoadError: the package exists and its own code fails.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:
        # The package itself or one above it is missing, not something that its code imports.
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            return None
        raise _import_failure(name, error) from error


def import_package(directory: Path) -> ModuleType:
    """Import the package in `directory`, whatever else is installed under its name.

    Raises:
        ModuleLoadError: its code fails, or another package of that name is loaded already.
    """
    known = sys.modules.get(directory.name)
    if known is None:
        return _imported_from(directory)
    origin = getattr(known, "__file__", None)
    if origin is None or Path(origin).resolve().parent != directory.resolve():
        raise ModuleLoadError(
            f"Refusing to load `{directory.name}` from {directory}: "
            f"a package of that name is already loaded from {origin}."
        )
    return known


def _imported_from(directory: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        directory.name, directory / "__init__.py", submodule_search_locations=[str(directory)]
    )
    assert spec is not None  # a .py file always has a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs, as the import system does: its own files import the package.
    sys.modules[directory.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[directory.name]
        if isinstance(error, Exception):
            raise _import_failure(directory.name, error) from error
        raise
    return module


def _import_failure(name: str, error: Exception) -> ModuleLoadError:
    return ModuleLoadError(f"Package `{name}` does not import: {describe_error(error)}")


# The directories that loaders added to the import path, with how many loaders need each.
_searched: Counter[str] = Counter()


def search(directory: str) -> None:
    """Make the packages in `directory` importable, without shadowing any that is installed."""
    if directory not in sys.path:
        sys.path.append(directory)
        _searched[directory] = 0
    if directory in _searched:
        _searched[directory] += 1


def stop_searching(directory: str) -> None:
    """Undo one `search`; the last one removes the directory from the import path."""
    if directory in _searched:
        _searched[directory] -= 1
        if _searched[directory] <= 0:
            del _searched[directory]
            if directory in sys.path:
                sys.path.remove(directory)


# --- checks of a module's code before it is mounted ----------------------------------------------


def mount_fault(mount: Any) -> tuple[str, str] | None:
    """Return (name of the check, message) if `mount` cannot mount a module, else None."""
    if not callable(mount):
        return "mount_exists", "No mount() function found"
    if len(inspect.signature(mount).parameters) < 2:
        return "mount_signature", "mount() must take 2 parameters: coordinator and config"
    if not inspect.iscoroutinefunction(mount):
        return "mount_signature", "mount() must be async (async def mount(coordinator, config))"
    return None


def ready_fault(package: Any) -> str | None:
    """Return what is wrong with the package's `on_session_ready`; None if it is valid or absent."""
    ready = getattr(package, "on_session_ready", None)
    if ready is None:
        return None
    if not inspect.iscoroutinefunction(ready):
        return "on_session_ready must be async (async def on_session_ready(coordinator))"
    parameters = inspect.signature(ready).parameters.values()
    if any(_takes_coordinator(parameter) for parameter in parameters):
        return None
    return "on_session_ready must accept a coordinator argument"


def _takes_coordinator(parameter: inspect.Parameter) -> bool:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return True
    positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return positional and parameter.default is parameter.empty


def usable_ready(module_id: str, package: ModuleType | None) -> Callable[..., Any] | None:
    """Return the package's `on_session_ready`; a faulty one is skipped with a warning."""
    fault = ready_fault(package)
    if fault is not None:
        logger.warning("on_session_ready skipped module=%s: %s", module_id, fault)
        return None
    return getattr(package, "on_session_ready", None)


def check_package(module_id: str, package: ModuleType, mount: Any) -> None:
    """Raise ModuleValidationError if the package is not a module of a known type."""
    declared = getattr(package, "__amplifier_module_type__", None)
    if declared is not None and declared not in TYPE_TO_MOUNT_POINT:
        raise ModuleValidationError(
            f"Module '{module_id}' has unknown type '{declared}'. "
            f"Valid types: {sorted(TYPE_TO_MOUNT_POINT)}",
            module_id=module_id,
            reason_code="invalid_module_metadata",
        )
    fault = mount_fault(mount)
    if fault is not None:
        raise ModuleValidationError(
            f"Module '{module_id}' failed validation: 1 error. Errors: {fault[0]}: {fault[1]}",
            module_id=module_id,
        )


def check_transport(module_id: str, path: Path) -> None:
    """Raise ModuleLoadError if an `amplifier.toml` says that the module is not Python."""
    manifest = path / "amplifier.toml"
    if not manifest.is_file():
        return
    import tomllib  # noqa: PLC0415 - few modules have a manifest; the others do not pay for it

    try:
        module = tomllib.loads(manifest.read_text(encoding="utf-8")).get("module", {})
    except ValueError as error:
        raise ModuleLoadError(
            f"Module '{module_id}': {manifest} is not valid TOML: {error}",
            module_id=module_id,
            reason_code="invalid_module_metadata",
        ) from error
    transport = module.get("transport", "python")
    if transport != "python":
        raise ModuleLoadError(
            f"Module '{module_id}' uses transport '{transport}'; only 'python' is supported.",
            module_id=module_id,
            reason_code="invalid_module_metadata",
        )
