"""Swapping a module in a running session: staged, switched between turns, kept or rolled back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from amplifier_core import events
from amplifier_core._mounting import PROTOCOLS, MountedModule, call_ready, mount_module
from amplifier_core.coordinator import NAMED, ModuleCoordinator
from amplifier_core.errors import ModuleValidationError, MountError, describe_error
from amplifier_core.loader import ReadyFunction
from amplifier_core.models import HookResult

logger = logging.getLogger(__name__)

# The event of a failure that the loop survives, and the field in it that names the module.
_FAILURES = {
    "providers": (events.PROVIDER_ERROR, "provider"),
    "tools": (events.TOOL_ERROR, "tool_name"),
}


class _Stage(ModuleCoordinator):
    """The coordinator on which a new module is mounted: the real one with its own mount points.

    Once the module is in place, the stage becomes the real coordinator, because the module may
    have kept a reference to it.
    """

    def __init__(self, real: ModuleCoordinator) -> None:
        vars(self).update(vars(real))
        self.mount_points = {
            key: dict(slot) if key in NAMED else slot for key, slot in real.mount_points.items()
        }
        self._interpositions = {}
        self._cleanup_fns = []

    @property
    def cleanups(self) -> tuple[Callable[[], Any], ...]:
        """The cleanups of the new module."""
        return tuple(self._cleanup_fns)

    def merge_into(self, real: ModuleCoordinator) -> None:
        """Become the real coordinator, by sharing its attributes."""
        self.__dict__ = vars(real)


@dataclass(eq=False)
class _Swap:
    """One swap: the new module, the replaced objects, and any failure since."""

    record: MountedModule
    stage: _Stage
    replaces: str | None
    outgoing: dict[str, Any] = field(default_factory=dict[str, Any])
    failure: str | None = None
    stop_watching: Callable[[], None] = lambda: None

    def describe(self) -> dict[str, Any]:
        """Return the data of the events about this swap."""
        return {
            "mount_point": self.record.mount_point,
            "module_id": self.record.module_id,
            "names": list(self.record.objects),
            "replaced": list(self.outgoing),
        }


class Swaps:
    """The swaps of one session: those waiting for a turn to end, and those on probation."""

    def __init__(self, coordinator: ModuleCoordinator, modules: list[MountedModule]) -> None:
        self._coordinator = coordinator
        self._modules = modules
        self._staged: list[_Swap] = []
        self._on_probation: list[_Swap] = []
        self._changing = asyncio.Lock()
        self._ready: list[tuple[str, ReadyFunction]] = []
        self._announcements: list[tuple[str, dict[str, Any]]] = []
        # The outcome of each turn since the modules on probation were last judged; None is good.
        self.turn_errors: list[BaseException | None] = []

    async def settled(self) -> None:
        """Wait until no swap is in progress: a turn must not start in the middle of one."""
        async with self._changing:
            pass

    async def stage(self, mount_point: str, spec: dict[str, Any], replaces: str | None) -> None:
        """Load, mount and check a new module on a coordinator of its own."""
        if mount_point not in PROTOCOLS:
            raise MountError(f"Nothing can be swapped at {mount_point}", mount_point=mount_point)
        before = self._coordinator.mount_points[mount_point]
        if replaces is not None and (mount_point not in NAMED or replaces not in before):
            raise MountError(f"`{replaces}` is not mounted at {mount_point}")
        stage = _Stage(self._coordinator)
        loader: Any = self._coordinator.loader
        try:
            record = await mount_module(stage, loader, mount_point, spec)
            if not record.objects:
                message = f"Module '{record.module_id}' mounted nothing"
                raise ModuleValidationError(message, module_id=record.module_id)
        except BaseException as error:
            await self._release(stage.cleanups)
            if isinstance(error, Exception):
                announcement = MountedModule.of(mount_point, spec).describe_failure(error)
                await self._coordinator.hooks.emit(events.MODULE_LOAD_FAILED, announcement)
            raise
        record.state = "swapped"
        record.cleanups = stage.cleanups
        for cleanup in record.cleanups:
            self._coordinator.register_cleanup(cleanup)
        self._staged.append(_Swap(record, stage, replaces))

    async def at_boundary(self) -> None:
        """Between turns: judge the modules on probation, then put the staged ones in place."""
        async with self._changing:
            if self.turn_errors:
                await self._judge()
            while self._staged:
                await self._switch(self._staged[0])
        # Without the lock: a handler of these events may run a turn or swap another module.
        ready = self._ready
        self._ready = []
        await call_ready(self._coordinator, ready)
        announcements = self._announcements
        self._announcements = []
        for event, payload in announcements:
            await self._coordinator.hooks.emit(event, payload)

    async def _judge(self) -> None:
        probation = self._on_probation
        turn_error = next((each for each in self.turn_errors if each is not None), None)
        self._on_probation = []
        self.turn_errors = []
        # Backwards, so that of two swaps in one place the first one restores the original.
        for swap in reversed(probation):
            swap.stop_watching()
            error = turn_error or swap.failure
            if error is not None:
                await self._roll_back(swap, error)
        replaced = [module for swap in probation for module in swap.outgoing.values()]
        for record in [each for each in self._modules if self._is_gone(each, replaced)]:
            self._modules.remove(record)
            await self._release(record.cleanups)

    async def _switch(self, swap: _Swap) -> None:
        swap.outgoing = _outgoing(self._coordinator, swap)
        try:
            await _hand_over(swap, swap.outgoing, swap.record.objects)
        except Exception as error:
            logger.exception("history not handed over id=%s", swap.record.module_id)
            self._staged.remove(swap)
            await self._discard(swap, error)
            return
        # Only now: a hand-over that is cancelled is repeated at the next boundary.
        self._staged.remove(swap)
        self._exchange(swap, swap.outgoing, swap.record.objects)
        swap.stage.merge_into(self._coordinator)
        self._modules.append(swap.record)
        self._watch(swap)
        self._on_probation.append(swap)
        if swap.record.ready is not None:
            self._ready.append(swap.record.ready)
        self._announcements.append((events.MODULE_SWAPPED, swap.describe()))

    async def _roll_back(self, swap: _Swap, error: BaseException | str) -> None:
        try:
            await _hand_over(swap, swap.record.objects, swap.outgoing)
        except Exception:
            logger.exception("history not handed back id=%s", swap.record.module_id)
        self._exchange(swap, swap.record.objects, swap.outgoing)
        self._modules.remove(swap.record)
        await self._discard(swap, error)

    async def _discard(self, swap: _Swap, error: BaseException | str) -> None:
        await self._release(swap.record.cleanups)
        text = describe_error(error) if isinstance(error, BaseException) else error
        logger.warning("module rolled back id=%s: %s", swap.record.module_id, text)
        self._announcements.append((events.MODULE_ROLLED_BACK, {**swap.describe(), "error": text}))

    async def _release(self, cleanups: tuple[Callable[[], Any], ...]) -> None:
        for cleanup in reversed(cleanups):
            await self._coordinator.release(cleanup)

    def _exchange(self, swap: _Swap, out: Mapping[str, Any], come: Mapping[str, Any]) -> None:
        """Replace modules and keep their order, by which loops choose among equal ones."""
        mount_point = swap.record.mount_point
        if mount_point not in NAMED:
            self._coordinator.mount_points[mount_point] = come[mount_point]
            return
        slot: dict[str, Any] = self._coordinator.mount_points[mount_point]
        after: dict[str, Any] = {}
        for name, module in slot.items():
            # All new modules take the position of the first one that is replaced.
            after.update(come if name in out else {name: module})
        after.update(come)
        slot.clear()
        for name, module in after.items():
            _ = self._coordinator.mount(mount_point, module, name=name)

    def _watch(self, swap: _Swap) -> None:
        """Record failures of the new module that the loop survives."""
        if swap.record.mount_point not in _FAILURES:
            return
        event, field = _FAILURES[swap.record.mount_point]

        async def note(event: str, data: dict[str, Any]) -> HookResult:
            if data.get(field) in swap.record.objects:
                swap.failure = f"{event}: {data.get('error')}"
            return HookResult(action="continue")

        swap.stop_watching = self._coordinator.hooks.register(event, note, 1000, "module-swap")

    def _is_gone(self, record: MountedModule, replaced: list[Any]) -> bool:
        """Whether a module was replaced and nothing of it is mounted any more."""
        mounted = self._coordinator.mount_points
        present = [mounted["orchestrator"], mounted["context"]]
        present += [*mounted["providers"].values(), *mounted["tools"].values()]
        return _share(record, replaced) and not _share(record, present)


def _share(record: MountedModule, others: list[Any]) -> bool:
    """Whether the module has mounted one of these objects."""
    return any(own is other for own in record.objects.values() for other in others)


async def _hand_over(swap: _Swap, giving: Mapping[str, Any], taking: Mapping[str, Any]) -> None:
    """Copy the messages of the old context to the new one."""
    if swap.record.mount_point == "context" and giving["context"] is not None:
        messages = await giving["context"].get_messages()
        await taking["context"].set_messages(messages)


def _outgoing(coordinator: ModuleCoordinator, swap: _Swap) -> dict[str, Any]:
    """Return the objects that the new module replaces, by name."""
    mount_point = swap.record.mount_point
    mounted = coordinator.mount_points[mount_point]
    if mount_point not in NAMED:
        return {mount_point: mounted}
    names = [name for name in mounted if name in swap.record.objects or name == swap.replaces]
    if not names and len(mounted) == 1:
        names = list(mounted)
    return {name: mounted[name] for name in names}
