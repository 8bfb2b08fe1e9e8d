"""What can be said of a module's code before it is mounted."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from amplifier_core._discovery import TYPE_TO_MOUNT_POINT
from amplifier_core.errors import ModuleLoadError, ModuleValidationError

logger = logging.getLogger(__name__)


def mount_fault(mount: Any) -> tuple[str, str] | None:
    """Return (name of the check, message) when `mount` cannot mount a module, else None."""
    if not callable(mount):
        return "mount_exists", "No mount() function found"
    if len(inspect.signature(mount).parameters) < 2:
        return "mount_signature", "mount() must take 2 parameters: coordinator and config"
    if not inspect.iscoroutinefunction(mount):
        return "mount_signature", "mount() must be async (async def mount(coordinator, config))"
    return None


def ready_fault(package: Any) -> str | None:
    """Return what is wrong with the package's `on_session_ready`; None when it has none."""
    ready = getattr(package, "on_session_ready", None)
    return None if ready is None else _fault_of_ready(ready)


def _fault_of_ready(ready: Callable[..., Any]) -> str | None:
    if not inspect.iscoroutinefunction(ready):
        return "on_session_ready must be async (async def on_session_ready(coordinator))"
    takes_one = any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        or parameter.kind is parameter.VAR_POSITIONAL
        for parameter in inspect.signature(ready).parameters.values()
    )
    return None if takes_one else "on_session_ready must accept a coordinator argument"


def usable_ready(module_id: str, package: ModuleType | None) -> Callable[..., Any] | None:
    """Return the package's `on_session_ready`; a faulty one is skipped with a warning."""
    ready = getattr(package, "on_session_ready", None)
    if ready is None:
        return None
    fault = _fault_of_ready(ready)
    if fault is not None:
        logger.warning("on_session_ready skipped module=%s: %s", module_id, fault)
        return None
    return ready


def check_package(module_id: str, package: ModuleType, mount: Any) -> None:
    """Raise ModuleValidationError when the package is not a module of a known type."""
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
    """Raise ModuleLoadError when an `amplifier.toml` says the module is not Python."""
    manifest = path / "amplifier.toml"
    if not manifest.is_file():
        return
    import tomllib  # noqa: PLC0415 - hardly a module has a manifest; others need not pay for it

    try:
        module = tomllib.loads(manifest.read_text(encoding="utf-8")).get("module", {})
    except tomllib.TOMLDecodeError as error:
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
