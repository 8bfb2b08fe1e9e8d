"""Mounting the modules of a mount plan: load, mount, record, and announce what failed."""

from __future__ import annotations

import copy
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any, cast

from amplifier_core import events
from amplifier_core._structural import missing_members
from amplifier_core._tasks import limited
from amplifier_core.coordinator import NAMED, SINGLE, ModuleCoordinator
from amplifier_core.errors import (
    ModuleLoadError,
    ModuleValidationError,
    SessionError,
    describe_error,
    error_text,
    module_failure_reason,
)
from amplifier_core.interfaces import ContextManager, Orchestrator, Provider, Tool
from amplifier_core.loader import TYPE_TO_MOUNT_POINT, ModuleLoader, ReadyFunction
from amplifier_core.models import ModuleStatus

logger = logging.getLogger(__name__)

PROTOCOLS: dict[str, Any] = {
    "orchestrator": Orchestrator,
    "context": ContextManager,
    "providers": Provider,
    "tools": Tool,
}
_TYPE_OF = {mount_point: kind for kind, mount_point in TYPE_TO_MOUNT_POINT.items()}
_ESSENTIAL = {"orchestrator": "orchestrator", "context": "context manager"}
_LISTS = ("providers", "tools", "hooks")
_SECTIONS = ("session", "agents", *_ESSENTIAL, *_LISTS)
# Capabilities by which an app is called before each provider is loaded, and when it fails.
_BEFORE_LOAD = "provider.before_load"
_LOAD_FAILURE = "provider.load_failure"
_DEFAULTS = {"orchestrator": "loop-basic", "context": "context-simple"}


@dataclass(eq=False)
class MountedModule:
    """One entry of the mount plan and its state."""

    mount_point: str
    module_id: str
    instance_id: str | None = None
    required: bool = False
    state: str = "mounted"
    error: str | None = None
    # What it mounted, by name. A module of which nothing is mounted any more has been replaced.
    objects: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cleanups: tuple[Callable[[], Any], ...] = ()
    ready: tuple[str, ReadyFunction] | None = None

    @classmethod
    def of(cls, mount_point: str, spec: dict[str, Any]) -> MountedModule:
        """Return the record of a plan's entry."""
        required = bool(spec.get("required", False))
        return cls(mount_point, spec["module"], spec.get("instance_id"), required)

    @property
    def module_type(self) -> str:
        """The module's type, which follows from its mount point."""
        return _TYPE_OF[self.mount_point]

    def status(self) -> ModuleStatus:
        """Return this record for the session's status."""
        return ModuleStatus.model_validate(self, from_attributes=True)

    def describe_failure(self, error: Exception) -> dict[str, Any]:
        """Return what `module:load_failed` announces about this module."""
        facts = {
            "module_type": self.module_type,
            "module_id": self.module_id,
            "error": error_text(error),
            "reason_code": module_failure_reason(error),
            "required": self.required,
        }
        return facts if self.instance_id is None else {**facts, "instance_id": self.instance_id}


class MountWave:
    """Mounts everything a plan names: orchestrator, context, providers, tools, hooks.

    A failing orchestrator or context, and any module marked `required`, ends the wave. Every other
    failure is recorded and announced after the last hook is mounted, so that every hook receives
    every failure.
    """

    def __init__(
        self, plan: dict[str, Any], coordinator: ModuleCoordinator, loader: ModuleLoader
    ) -> None:
        self._plan = plan
        self._coordinator = coordinator
        self._loader = loader
        self._announcements: list[dict[str, Any]] = []
        self.modules: list[MountedModule] = []

    async def run(self) -> None:
        """Mount, announce the failures, then call every module's `on_session_ready`.

        Raises:
            SessionError: a module that the session requires did not mount.
            ValueError: the plan is malformed, or two instances of a provider have the same name.
        """
        coordinator = self._coordinator
        _check_sections(self._plan)
        seconds = coordinator.mount_timeout
        try:
            for mount_point, spec in _entries(self._plan):
                try:
                    mounted = await limited(seconds, self._mount(mount_point, spec))
                    self.modules.append(mounted)
                except Exception as error:  # noqa: BLE001 - logged there, or raised again
                    await self._failed(mount_point, spec, error)
        finally:
            for announcement in self._announcements:
                await coordinator.hooks.emit(events.MODULE_LOAD_FAILED, announcement)
        # Modules that were loaded by other modules are enqueued with the loader.
        enqueued = self._loader.get_on_session_ready_queue()
        self._loader.clear_on_session_ready_queue()
        ready = [module.ready for module in self.modules if module.ready is not None]
        await call_ready(coordinator, [*ready, *enqueued])

    async def _mount(self, mount_point: str, spec: dict[str, Any]) -> MountedModule:
        """Mount one entry; for a provider, call the app's `provider.before_load` first."""
        before_load = self._coordinator.get_capability(_BEFORE_LOAD)
        if mount_point == "providers" and before_load is not None:
            await before_load(self._coordinator, copy.deepcopy(spec))
        return await mount_module(self._coordinator, self._loader, mount_point, spec)

    async def _failed(self, mount_point: str, spec: dict[str, Any], error: Exception) -> None:
        """Record a failure; raise if the session requires the module."""
        record = MountedModule.of(mount_point, spec)
        record.state = "failed"
        record.error = describe_error(error)
        kind = f"{record.module_type} '{record.module_id}'"
        essential = _ESSENTIAL.get(mount_point)
        if essential is None:
            logger.warning("Failed to load %s: %s", kind, error_text(error))
            logger.debug("Failed to load %s", kind, exc_info=error)
            self.modules.append(record)
            self._announcements.append(record.describe_failure(error))
        on_failure = self._coordinator.get_capability(_LOAD_FAILURE)
        if mount_point == "providers" and on_failure is not None:
            await on_failure(self._coordinator, copy.deepcopy(spec), error)
        if essential is not None or record.required:
            raise SessionError(
                f"Cannot initialize without {essential or f'required {kind}'}: {error_text(error)}",
                session_id=self._coordinator.session_id,
            ) from error


async def mount_module(
    coordinator: ModuleCoordinator, loader: ModuleLoader, mount_point: str, spec: dict[str, Any]
) -> MountedModule:
    """Load, mount and check one module; on a failure, undo what it mounted."""
    record = MountedModule.of(mount_point, spec)
    slot: Any = coordinator.mount_points.get(mount_point)
    before = slot.copy() if mount_point in NAMED else slot
    config, source = spec.get("config"), spec.get("source")
    mount = await loader.load(record.module_id, config, source_hint=source, coordinator=coordinator)
    try:
        cleanup = await adopt(coordinator, mount_point, await mount(coordinator), before)
        if cleanup is not None:
            coordinator.register_cleanup(cleanup)
            record.cleanups = (cleanup,)
        if mount_point == "providers":
            await _name_instance(coordinator, record, before)
        record.objects = _mounted_since(coordinator, mount_point, before)
        _check_objects(record)
    except BaseException:
        _restore(coordinator, mount_point, before)
        raise
    record.ready = getattr(mount, "__on_session_ready__", None)
    return record


async def call_ready(
    coordinator: ModuleCoordinator, queue: list[tuple[str, ReadyFunction]]
) -> None:
    """Call each module's `on_session_ready` in order; a failure is announced and skipped."""
    for module_id, on_session_ready in queue:
        try:
            await on_session_ready(coordinator)
        except Exception as error:
            text = error_text(error)
            logger.warning("on_session_ready failed module=%s: %s", module_id, text, exc_info=True)
            await coordinator.hooks.emit(
                events.MODULE_ON_SESSION_READY_FAILED, {"module_id": module_id, "error": text}
            )


async def adopt(
    coordinator: ModuleCoordinator, mount_point: str, returned: Any, before: Any
) -> Callable[[], Any] | None:
    """Return the cleanup if `returned`, what a mount returned, is one.

    A module that returned itself instead of mounting itself is mounted here. A module or a hook
    handler is never treated as a cleanup, even if it is callable.
    """
    if returned is None or isinstance(returned, FunctionType | MethodType):
        return returned
    protocol = PROTOCOLS.get(mount_point)
    if protocol is not None and isinstance(returned, protocol):
        slot = coordinator.mount_points[mount_point]
        if slot == before if isinstance(slot, dict) else slot is before:
            await coordinator.mount(mount_point, returned)
        return None
    return returned if callable(returned) and _takes_nothing(returned) else None


def _mounted_since(coordinator: ModuleCoordinator, mount_point: str, before: Any) -> dict[str, Any]:
    """Return the objects that a module mounted, by name."""
    slot: Any = coordinator.mount_points.get(mount_point)
    if mount_point in NAMED:
        return {name: new for name, new in slot.items() if new is not before.get(name)}
    return {} if slot is before else {mount_point: slot}


def _restore(coordinator: ModuleCoordinator, mount_point: str, before: Any) -> None:
    """Undo what a module that failed has mounted."""
    if mount_point in NAMED:
        slot = coordinator.mount_points[mount_point]
        slot.clear()
        slot.update(before)
    elif mount_point in SINGLE:
        coordinator.mount_points[mount_point] = before


def _takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether a callable can be called without arguments, as cleanups are."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some built-in callables have no signature, nor has an AsyncMock of Python 3.11.2.
        return True
    try:
        signature.bind()
    except TypeError:
        return False
    return True


def _check_objects(record: MountedModule) -> None:
    """Raise an error if a module did not mount what its mount point requires.

    Mounting nothing is allowed for every module except a provider.
    """
    if record.mount_point == "providers" and not record.objects:
        message = "Provider mount did not install a new provider instance"
        raise ModuleLoadError(message, module_id=record.module_id)
    protocol = PROTOCOLS.get(record.mount_point)
    for each in record.objects.values():
        if protocol is not None and not isinstance(each, protocol):
            raise ModuleValidationError(
                f"Module '{record.module_id}' mounted an object that is not a "
                f"{record.module_type}: it has no {', '.join(missing_members(each, protocol))}",
                module_id=record.module_id,
            )


async def _name_instance(
    coordinator: ModuleCoordinator, record: MountedModule, before: dict[str, Any]
) -> None:
    """Give a new provider the name that its entry asks for."""
    default = record.module_id.removeprefix("provider-")
    name = record.instance_id or default
    slot = coordinator.mount_points["providers"]
    if name == default or slot.get(name) is not before.get(name):
        return  # It has chosen the name itself.
    installed = slot.get(default)
    if installed is None or installed is before.get(default):
        _restore(coordinator, "providers", before)  # it mounted under neither name
        return
    await coordinator.mount("providers", installed, name=name)
    if default in before:
        await coordinator.mount("providers", before[default], name=default)
    else:
        await coordinator.unmount("providers", name=default)


def _check_sections(plan: dict[str, Any]) -> None:
    """Raise for a section of a wrong type; warn of a misspelled one, since apps have their own."""
    for key in plan.keys() - set(_SECTIONS):
        from difflib import get_close_matches  # noqa: PLC0415 - only unknown keys pay for it

        for near in get_close_matches(str(key), _SECTIONS, n=1, cutoff=0.8):
            logger.warning("Mount plan section '%s' is ignored: did you mean '%s'?", key, near)
    for section in _LISTS:
        entries: Any = plan.get(section) or ()
        if not isinstance(entries, list | tuple):
            raise ValueError(f"{section} must be a list, got {type(entries).__name__}")
        for number, entry in enumerate(cast("list[Any]", entries)):
            if not isinstance(entry, Mapping):
                got = type(entry).__name__
                raise ValueError(f"{section}[{number}] must be a dict with a 'module', got {got}")


def _entries(plan: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each entry of the plan in its long form, with the mount point it is for."""
    for mount_point in _ESSENTIAL:
        yield mount_point, _essential_entry(plan, mount_point)
    _check_instances(plan.get("providers") or [])
    for mount_point in _LISTS:
        for spec in plan.get(mount_point) or ():
            if spec.get("module"):
                yield mount_point, spec


def _essential_entry(plan: dict[str, Any], mount_point: str) -> dict[str, Any]:
    session: dict[str, Any] = plan["session"]
    spec: Any = session[mount_point]
    if isinstance(spec, dict):
        entry = cast("dict[str, Any]", spec)
        return entry if entry.get("module") else {**entry, "module": _DEFAULTS[mount_point]}
    entry = {"module": spec, "source": session.get(f"{mount_point}_source")}
    section = plan.get(mount_point)
    if isinstance(section, dict):
        entry["config"] = cast("dict[str, Any]", section).get("config")
    return entry


def _check_instances(providers: list[dict[str, Any]]) -> None:
    names = Counter(spec.get("instance_id") or spec.get("module") for spec in providers)
    for name, count in names.items():
        if name and count > 1:
            raise ValueError(
                f"Provider '{name}' is listed {count} times: "
                f"give each further instance an instance_id of its own."
            )
