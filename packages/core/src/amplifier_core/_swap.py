"""Exchanging a module in a living session: staged, switched between turns, kept or rolled back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from amplifier_core import events
from amplifier_core._mounting import PROTOCOLS, TYPE_OF, MountedModule, adopt, new_names
from amplifier_core.coordinator import NAMED, ModuleCoordinator
from amplifier_core.errors import ModuleValidationError, MountError, describe_error, error_text
from amplifier_core.loader import module_failure_reason
from amplifier_core.models import HookResult

logger = logging.getLogger(__name__)

# What tells of a failure that the loop survived, and the field that names the culprit.
_FAILURES = {
    "providers": (events.PROVIDER_ERROR, "provider"),
    "tools": (events.TOOL_ERROR, "tool_name"),
}


class _Stage(ModuleCoordinator):
    """The coordinator a new module is mounted on: the real one, but for its mount points.

    Once the module is in place the stage becomes the real coordinator, for the module may have
    kept it.
    """

    def __init__(self, real: ModuleCoordinator) -> None:
        vars(self).update(vars(real))
        self.mount_points = {
            key: dict(slot) if key in NAMED else slot for key, slot in real.mount_points.items()
        }
        self._interpositions = None
        self._cleanup_fns = []

    @property
    def cleanups(self) -> list[Callable[[], Any]]:
        """What the new module wants run at its end."""
        return list(self._cleanup_fns)

    def merge_into(self, real: ModuleCoordinator) -> None:
        """Become the real coordinator."""
        self.__dict__ = vars(real)


class _Swap:
    """One exchange: what comes, what goes, and how to undo it."""

    def __init__(self, mount_point: str, record: MountedModule, stage: _Stage) -> None:
        self.mount_point = mount_point
        self.record = record
        self.stage = stage
        self.cleanups = stage.cleanups
        self.incoming: dict[str, Any] = {}
        self.replaces: str | None = None
        self.outgoing: dict[str, Any] = {}
        self.failure: str | None = None
        self.stop_watching: Callable[[], None] = lambda: None


class Swaps:
    """The exchanges of one session: those waiting for a turn to end, and those on probation."""

    def __init__(self, coordinator: ModuleCoordinator, modules: list[MountedModule]) -> None:
        self._coordinator = coordinator
        self._modules = modules
        self._staged: list[_Swap] = []
        self._on_probation: list[_Swap] = []

    async def stage(self, mount_point: str, spec: dict[str, Any], replaces: str | None) -> None:
        """Load, mount and check a new module where nobody sees it yet."""
        if mount_point not in PROTOCOLS:
            raise MountError(f"Nothing can be swapped at {mount_point}", mount_point=mount_point)
        record, stage = MountedModule(TYPE_OF[mount_point], spec), _Stage(self._coordinator)
        before = self._coordinator.mount_points[mount_point]
        try:
            loader: Any = self._coordinator.loader
            mount = await loader.load(
                record.module_id, spec.get("config"), source_hint=spec.get("source")
            )
            cleanup = adopt(stage, mount_point, await mount(stage), before)
            if cleanup is not None:
                stage.register_cleanup(cleanup)
            swap = _Swap(mount_point, record, stage)
            swap.incoming = _incoming(mount_point, stage, before, record)
            swap.replaces = replaces
        except Exception as error:
            for cleanup in reversed(stage.cleanups):
                await self._coordinator.release(cleanup)
            await self._announce_failure(record, error)
            raise
        for cleanup in swap.cleanups:
            self._coordinator.register_cleanup(cleanup)
        self._staged.append(swap)

    async def switch(self) -> None:
        """Put every staged module in place. Called between turns."""
        while self._staged:
            swap = self._staged.pop(0)
            mounted = self._coordinator.mount_points[swap.mount_point]
            if swap.mount_point in NAMED:
                swap.outgoing = _outgoing(mounted, swap)
            else:
                swap.outgoing = {swap.mount_point: mounted}
            try:
                await self._hand_over(swap.mount_point, swap.outgoing, swap.incoming)
            except Exception as error:
                logger.exception("history not handed over id=%s", swap.record.module_id)
                await self._discard(swap, error)
                continue
            self._exchange(swap.mount_point, swap.outgoing, swap.incoming)
            swap.stage.merge_into(self._coordinator)
            swap.record.state, swap.record.names = "swapped", list(swap.incoming)
            self._modules.append(swap.record)
            self._watch(swap)
            self._on_probation.append(swap)
            await self._coordinator.hooks.emit(events.MODULE_SWAPPED, _payload(swap))

    async def turn_succeeded(self) -> None:
        """Keep the modules whose first turn went well, and let the old ones go."""
        probation, self._on_probation = self._on_probation, []
        for swap in probation:
            swap.stop_watching()
            if swap.failure is not None:
                await self._roll_back(swap, swap.failure)
                continue
            for record in list(self._modules):
                if record is not swap.record and self._is_gone(record, swap):
                    self._modules.remove(record)
                    if record.cleanup is not None:
                        await self._coordinator.release(record.cleanup)

    async def turn_failed(self, error: BaseException) -> None:
        """Bring back what the modules on probation replaced."""
        probation, self._on_probation = self._on_probation, []
        for swap in reversed(probation):
            swap.stop_watching()
            await self._roll_back(swap, error)

    async def _roll_back(self, swap: _Swap, error: BaseException | str) -> None:
        try:
            await self._hand_over(swap.mount_point, swap.incoming, swap.outgoing)
        except Exception:
            logger.exception("history not handed back id=%s", swap.record.module_id)
        self._exchange(swap.mount_point, swap.incoming, swap.outgoing)
        self._modules.remove(swap.record)
        await self._discard(swap, error)

    async def _discard(self, swap: _Swap, error: BaseException | str) -> None:
        for cleanup in reversed(swap.cleanups):
            await self._coordinator.release(cleanup)
        text = describe_error(error) if isinstance(error, BaseException) else error
        logger.warning("module rolled back id=%s: %s", swap.record.module_id, text)
        await self._coordinator.hooks.emit(
            events.MODULE_ROLLED_BACK, {**_payload(swap), "error": text}
        )

    async def _hand_over(
        self, mount_point: str, giving: dict[str, Any], taking: dict[str, Any]
    ) -> None:
        """Let a context that comes know what the one that goes knows."""
        if mount_point == "context" and giving["context"] is not None:
            messages = await giving["context"].get_messages()
            await taking["context"].set_messages(messages)

    def _exchange(self, mount_point: str, out: dict[str, Any], come: dict[str, Any]) -> None:
        if mount_point not in NAMED:
            self._coordinator.mount_points[mount_point] = come[mount_point]
            return
        for name in out:
            self._coordinator.unmount(mount_point, name=name)
        for name, module in come.items():
            self._coordinator.mount(mount_point, module, name=name)

    def _watch(self, swap: _Swap) -> None:
        """Notice failures of the new module that the loop survives."""
        if swap.mount_point not in _FAILURES:
            return
        event, field = _FAILURES[swap.mount_point]

        async def note(event: str, data: dict[str, Any]) -> HookResult:
            if data.get(field) in swap.incoming:
                swap.failure = f"{event}: {data.get('error')}"
            return HookResult(action="continue")

        swap.stop_watching = self._coordinator.hooks.register(event, note, 1000, "module-swap")

    def _is_gone(self, record: MountedModule, swap: _Swap) -> bool:
        """Whether nothing of a module that `swap` replaced is mounted any more."""
        if record.module_type != swap.record.module_type or record.state == "failed":
            return False
        if swap.mount_point not in NAMED:
            return True
        mounted = self._coordinator.mount_points[swap.mount_point]
        return all(
            name in swap.outgoing and mounted.get(name) is not swap.outgoing[name]
            for name in record.names
        )

    async def _announce_failure(self, record: MountedModule, error: Exception) -> None:
        await self._coordinator.hooks.emit(
            events.MODULE_LOAD_FAILED,
            {
                "module_type": record.module_type,
                "module_id": record.module_id,
                "error": error_text(error),
                "reason_code": module_failure_reason(error),
            },
        )


def _incoming(
    mount_point: str, stage: _Stage, before: Any, record: MountedModule
) -> dict[str, Any]:
    """Return what the new module mounted, by name, once it is known to be usable."""
    slot = stage.mount_points[mount_point]
    if mount_point in NAMED:
        incoming = {name: slot[name] for name in new_names(slot, before)}
        if record.instance_id is not None and len(incoming) == 1:
            incoming = {record.instance_id: next(iter(incoming.values()))}
    else:
        incoming = {} if slot is before else {mount_point: slot}
    protocol = PROTOCOLS[mount_point]
    misfits = [name for name, module in incoming.items() if not isinstance(module, protocol)]
    if not incoming or misfits:
        fault = f"does not implement {protocol.__name__}" if incoming else "mounted nothing"
        raise ModuleValidationError(
            f"Module '{record.module_id}' {fault}", module_id=record.module_id
        )
    return incoming


def _outgoing(mounted: dict[str, Any], swap: _Swap) -> dict[str, Any]:
    """Return what the new modules take the place of."""
    names = [name for name in mounted if name in swap.incoming or name == swap.replaces]
    if not names and len(mounted) == 1:
        names = list(mounted)
    return {name: mounted[name] for name in names}


def _payload(swap: _Swap) -> dict[str, Any]:
    return {
        "mount_point": swap.mount_point,
        "module_id": swap.record.module_id,
        "names": list(swap.incoming),
        "replaced": list(swap.outgoing),
    }
