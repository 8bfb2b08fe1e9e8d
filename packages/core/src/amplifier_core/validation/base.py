"""The base of the validators of all module types: results, the import, and the common checks."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal, TypeAlias

from amplifier_core._discovery import (
    TYPE_TO_MOUNT_POINT,
    find_mount,
    find_package_dir,
    mount_fault,
    ready_fault,
)
from amplifier_core._mounting import PROTOCOLS
from amplifier_core.coordinator import NAMED
from amplifier_core.errors import ModuleLoadError, describe_error
from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.rehearsal import masked_credentials, mounted, refused_network

__all__ = [
    "ModuleValidator",
    "Severity",
    "ValidationCheck",
    "ValidationResult",
    "check_on_session_ready",
    "import_module_from_path",
    "importable_copy",
]

Severity: TypeAlias = Literal["error", "warning", "info"]


@dataclass
class ValidationCheck:
    """One check; `severity` says how bad it is if it did not pass."""

    name: str
    passed: bool
    message: str
    severity: Severity = "info"


@dataclass
class ValidationResult:
    """All checks of one module."""

    module_type: str
    module_path: str
    checks: list[ValidationCheck] = field(default_factory=list[ValidationCheck])

    @property
    def passed(self) -> bool:
        """Whether no check failed as an error."""
        return not self.errors

    @property
    def errors(self) -> list[ValidationCheck]:
        """The failed checks that make the module unusable."""
        return self._failed("error")

    @property
    def warnings(self) -> list[ValidationCheck]:
        """The failed checks that a good module would pass."""
        return self._failed("warning")

    def add(self, check: ValidationCheck) -> None:
        """Add a check."""
        self.checks.append(check)

    def summary(self) -> str:
        """Return the verdict and the counts in one line."""
        good = sum(check.passed for check in self.checks)
        return (
            f"{'PASSED' if self.passed else 'FAILED'}: {good}/{len(self.checks)} checks passed "
            f"({len(self.errors)} errors, {len(self.warnings)} warnings)"
        )

    def _failed(self, severity: Severity) -> list[ValidationCheck]:
        return [each for each in self.checks if not each.passed and each.severity == severity]


def passed(name: str, message: str, severity: Severity = "info") -> ValidationCheck:
    """Return a check that passed."""
    return ValidationCheck(name, True, message, severity)


def failed(name: str, message: str, severity: Severity = "error") -> ValidationCheck:
    """Return a check that failed."""
    return ValidationCheck(name, False, message, severity)


def check_on_session_ready(module: Any) -> ValidationCheck | None:
    """Return the failed check if the module's `on_session_ready` is not valid."""
    fault = ready_fault(module)
    return None if fault is None else failed("on_session_ready_async", fault)


def import_module_from_path(path: str | Path) -> ModuleType:
    """Import the package or file at `path` under its own name, with the packages around it.

    Raises:
        ImportError: there is nothing to import, or another file is loaded under the name.
    """
    path = Path(path).resolve()
    source = path / "__init__.py" if path.is_dir() else path
    if not source.is_file():
        raise ImportError(f"No __init__.py found in {path}" if path.is_dir() else f"No file {path}")
    name, root = _name_and_root(path)
    _refuse_other_owner(name, path)
    importlib.invalidate_caches()
    sys.path.insert(0, str(root))
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(str(root))
    _refuse_other_owner(name, path)
    return module


def importable_copy(package: Path) -> Path:
    """Return where `import` finds the package in the folder `package`; the folder if nowhere."""
    name, _ = _name_and_root(package)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        # The package around it cannot be imported, or a test has put something in its place.
        return package
    if spec is None or spec.origin is None:
        return package
    return Path(spec.origin).resolve().parent


def _name_and_root(path: Path) -> tuple[str, Path]:
    """Return the name that a package or file is imported by, and the folder to import it from."""
    if not path.is_dir():
        return path.stem, path.parent
    name = path.name
    root = path.parent
    while (root / "__init__.py").is_file():
        name = f"{root.name}.{name}"
        root = root.parent
    return name, root


def _refuse_other_owner(name: str, path: Path) -> None:
    """Raise if `name`, or something below it, was loaded from outside of `path`."""
    for loaded, module in list(sys.modules.items()):
        if loaded != name and not loaded.startswith(f"{name}."):
            continue
        origin = getattr(module, "__file__", None)
        if origin is None or not _is_at(Path(origin).resolve(), path):
            raise ImportError(
                f"Refusing to import `{name}` from {path}: `{loaded}` is loaded from {origin}."
            )


def _is_at(origin: Path, path: Path) -> bool:
    return origin == path or path in origin.parents


def is_async(function: Any) -> bool:
    """Whether calling `function`, or an object with an async `__call__`, gives a coroutine."""
    called: Any = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def takes(function: Any, count: int) -> bool:
    """Whether `function` accepts `count` arguments; True if its signature is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # An AsyncMock of Python 3.11.2 and earlier has no signature, and takes anything.
        return True
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return len(parameters) >= count or any(each.kind in variable for each in parameters)


def check_coroutine_method(
    name: str, owner: Any, method: str, parameters: int = 0
) -> ValidationCheck:
    """Check that `owner` has an async method that takes at least `parameters` arguments."""
    function = getattr(owner, method, None)
    if not callable(function):
        return failed(name, f"{method}() is missing")
    if not is_async(function):
        return failed(name, f"{method}() must be async")
    if not takes(function, parameters):
        return failed(name, f"{method}() must accept at least {parameters} argument(s)")
    return passed(name, f"{method}() is async")


def check_name(check: str, instance: Any) -> ValidationCheck:
    """Check that a module has a name that distinguishes it from others."""
    name = getattr(instance, "name", None)
    if isinstance(name, str) and name:
        return passed(check, f"name is '{name}'")
    return failed(check, f"name must be a non-empty string, not {name!r}")


class ModuleValidator:
    """Validates one module: imports it, mounts it on a test double and checks what it mounted.

    The mount gets placeholders instead of credentials and no network, and everything it set up is
    cleaned up again. A subclass defines what is expected and how it is checked.
    """

    module_type: ClassVar[str]
    protocol_name: ClassVar[str]
    thing: ClassVar[str]

    async def validate(
        self,
        module_path: str | Path,
        entry_point: str | None = None,
        config: dict[str, Any] | None = None,
    ) -> ValidationResult:
        """Validate the package, file or importable name `module_path`, mounted with `config`.

        `entry_point` names the mount function when it is not `mount` of the package: `function`,
        `package:function` or `package.part:function`.
        """
        result = ValidationResult(self.module_type, str(module_path))
        module = self._import(result, module_path)
        mount = None if module is None else self._find_mount(result, module, entry_point)
        if mount is not None:
            await self._rehearse(result, mount, config)
        return result

    def inspect(self, instance: Any) -> Iterator[ValidationCheck]:
        """Check one mounted object."""
        raise NotImplementedError

    def check_mounted(
        self, coordinator: MockCoordinator, returned: Any
    ) -> Iterator[ValidationCheck]:
        """Check what a mount has mounted."""
        slot: Any = coordinator.mount_points[self._mount_point]
        mounted_objects: list[Any] = list(slot.values()) if self._mount_point in NAMED else [slot]
        instances = [each for each in mounted_objects if each is not None]
        if not instances:
            yield self._check_nothing_mounted(returned)
        for instance in instances:
            fits = isinstance(instance, PROTOCOLS[self._mount_point])
            verb = "implements" if fits else "does not implement"
            message = f"{type(instance).__name__} {verb} {self.protocol_name} interface"
            yield (passed if fits else failed)("protocol_compliance", message)
            yield from self.inspect(instance)

    @property
    def _mount_point(self) -> str:
        return TYPE_TO_MOUNT_POINT[self.module_type]

    def _import(self, result: ValidationResult, module_path: str | Path) -> ModuleType | None:
        try:
            module = _import_any(module_path)
        except Exception as error:  # noqa: BLE001 - whatever a module's code raises is the finding
            result.add(failed("module_importable", f"Cannot import module: {_told(error)}"))
            return None
        result.add(passed("module_importable", f"Module {module.__name__} imported"))
        return module

    def _find_mount(
        self, result: ValidationResult, module: ModuleType, entry_point: str | None
    ) -> Callable[..., Any] | None:
        """Return the mount function if it is valid; add the checks to the result either way."""
        try:
            module, mount = find_mount(module, entry_point)
        except ModuleLoadError as error:
            result.add(failed("mount_exists", str(error)))
            return None
        fault = mount_fault(mount)
        if fault is None or fault[0] != "mount_exists":
            result.add(passed("mount_exists", "mount() found"))
        if fault is not None:
            result.add(failed(*fault))
        else:
            result.add(passed("mount_signature", "mount() is async and takes both arguments"))
        ready = check_on_session_ready(module)
        if ready is not None and callable(mount):
            result.add(ready)
        return mount if fault is None else None

    async def _rehearse(
        self, result: ValidationResult, mount: Callable[..., Any], config: dict[str, Any] | None
    ) -> None:
        coordinator = MockCoordinator()
        with masked_credentials, refused_network() as attempts:
            try:
                async with mounted(mount, coordinator, self._mount_point, config) as returned:
                    for check in self.check_mounted(coordinator, returned):
                        result.add(check)
            except Exception as error:  # noqa: BLE001 - whatever a module's code raises is the finding
                message = f"Error during protocol compliance check: {_told(error)}"
                result.add(failed("protocol_compliance", message))
        if attempts:
            tried = ", ".join(dict.fromkeys(attempts))
            message = f"mount() must not use the network; it tried to reach {tried}"
            result.add(failed("no_network_at_mount", message, "warning"))
        else:
            result.add(passed("no_network_at_mount", "mount() did not use the network"))

    def _check_nothing_mounted(self, returned: Any) -> ValidationCheck:
        message = f"No {self.thing} was mounted"
        if callable(returned):
            hint = f"{message}; mount() returned a cleanup. Does it need a setting or credentials?"
            return passed("protocol_compliance", hint, "warning")
        article = "an" if self.protocol_name[0] in "AEIOU" else "a"
        return failed(
            "protocol_compliance",
            f"{message} and mount() did not return {article} {self.protocol_name} instance",
        )


def _import_any(module_path: str | Path) -> ModuleType:
    """Import a package, a project folder that has one, a file, or an importable name."""
    path = Path(module_path)
    if path.is_dir():
        module_id = path.resolve().name.removeprefix("amplifier-module-")
        return import_module_from_path(find_package_dir(module_id, path) or path)
    if path.is_file():
        return import_module_from_path(path)
    if len(path.parts) > 1 or path.suffix == ".py":
        raise ImportError(f"{path} does not exist")
    return importlib.import_module(str(module_path))


def _told(error: Exception) -> str:
    # The message of an ImportError is enough; for other errors the type matters too.
    return str(error) if isinstance(error, ImportError) else describe_error(error)
