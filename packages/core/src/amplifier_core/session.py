"""The session: one conversation with its modules, from initialize to cleanup."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from amplifier_core import events
from amplifier_core._mounting import MountedModule, MountWave
from amplifier_core._swap import Swaps
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.errors import NotInitializedError, SessionError, describe_error
from amplifier_core.history import close_history, interruptible
from amplifier_core.interfaces import accepts
from amplifier_core.loader import ModuleLoader
from amplifier_core.models import SessionStatus
from amplifier_core.redaction import redact_secrets

if TYPE_CHECKING:
    from amplifier_core.approval import ApprovalSystem
    from amplifier_core.display import DisplaySystem

__all__ = ["AmplifierSession"]

# The turns that the running code is part of; a child's turn is inside of its parent's.
_turns_above: ContextVar[tuple[object, ...]] = ContextVar("amplifier_turns", default=())


class AmplifierSession:
    """Runs prompts through the modules of one mount plan.

    `initialize` mounts them, `execute` runs a turn, `cleanup` ends it; `async with` does the first
    and the last. The plan is kept by reference, and exceptions are passed on unchanged.
    """

    # Defaults on the class keep idle sessions small; a process may have thousands of them.
    _initialized = False
    _announced = False
    # The turn that has begun, and whether its loop runs; before that, a swap can take effect.
    _turn: object | None = None
    _is_running = False
    _turns = 0
    _modules: Sequence[MountedModule] = ()
    _swaps: Swaps | None = None
    _release_from_parent: Callable[[], None] | None = None
    _state = "running"
    _last_error: dict[str, Any] | None = None
    _status: SessionStatus | None = None

    def __init__(
        self,
        config: dict[str, Any],
        loader: ModuleLoader | None = None,
        session_id: str | None = None,
        parent_id: str | None = None,
        approval_system: ApprovalSystem | None = None,
        display_system: DisplaySystem | None = None,
        is_resumed: bool = False,
    ) -> None:
        _check_config(config)
        self.config = config
        self.session_id: str = session_id or str(uuid4())
        self.parent_id = parent_id
        self.coordinator: ModuleCoordinator = ModuleCoordinator(
            self, approval_system, display_system
        )
        self.loader = ModuleLoader(self.coordinator) if loader is None else loader
        # asyncio's lock is fair, so turns run in the order of arrival.
        self._one_turn = asyncio.Lock()
        self.is_resumed = is_resumed
        self._started_at = time.time()

    @property
    def loader(self) -> ModuleLoader:
        """The module loader; the coordinator has it too, for modules that load others."""
        return cast("ModuleLoader", self.coordinator.loader)

    @loader.setter
    def loader(self, loader: ModuleLoader) -> None:
        self.coordinator.loader = loader

    @property
    def initialized(self) -> bool:
        """Whether the modules are mounted."""
        return self._initialized

    @property
    def status(self) -> SessionStatus:
        """The state of the session, with every module that mounted, failed or was swapped."""
        if self._status is None:
            started_at = datetime.fromtimestamp(self._started_at, UTC)
            self._status = SessionStatus(session_id=self.session_id, started_at=started_at)
        self._status.status = cast("Any", self._state)
        self._status.last_error = self._last_error
        self._status.modules = [module.status() for module in self._modules]
        return self._status

    def module_of(self, mounted: object) -> str | None:
        """Return the id of the module that mounted an object; None for one mounted by hand."""
        for module in self._modules:
            if any(each is mounted for each in module.objects.values()):
                return module.module_id
        return None

    async def initialize(self) -> None:
        """Mount every module of the plan, once; after a failure it may be called again.

        Raises:
            SessionError: the orchestrator, the context or a required module did not mount.
            ValueError: the plan is malformed, or two instances of a provider have the same name.
        """
        if self._initialized:
            return
        coordinator = self.coordinator
        wave = MountWave(self.config, coordinator, self.loader)
        self._modules = wave.modules
        await wave.run()
        if self.parent_id is not None:
            payload = {"parent": self.parent_id, "session_id": self.session_id, **self._metadata()}
            if self._setting("raw"):
                payload["raw"] = redact_secrets(self.config)
            await coordinator.hooks.emit(events.SESSION_FORK, payload)
        self._initialized = True

    async def execute(self, prompt: str) -> str:
        """Run one turn and return the answer.

        A session runs one turn at a time; others wait in the order of arrival, because two turns
        would mix their messages in one history. An immediate cancellation interrupts what the turn
        waits for. However the turn ends, every tool call in the history has a result.

        Raises:
            NotInitializedError: `initialize` was not called.
            SessionError: there is no orchestrator, no context or no provider; or this was called
                from inside a turn of this session, which it would have to wait for.
        """
        turns_above = _turns_above.get()
        if self._turn is not None and self._turn in turns_above:
            raise SessionError(
                "execute was called from inside a turn of the same session, by a tool or a hook. "
                "It would wait for that turn, and the turn for it. Fork a session instead.",
                session_id=self.session_id,
            )
        await self._one_turn.acquire()
        self._turn = object()
        _turns_above.set((*turns_above, self._turn))
        try:
            return await self._execute_alone(prompt)
        finally:
            self._turn = None
            _turns_above.set(turns_above)
            self._one_turn.release()
            # After the release: a handler of the swap's events may run another turn.
            if self._swaps is not None:
                await self._swaps.at_boundary()

    async def _execute_alone(self, prompt: str) -> str:
        """Run one turn while no other one runs."""
        if not self._initialized:
            raise NotInitializedError(session_id=self.session_id)
        if not self._announced:
            await self._announce_start()
        if self._swaps is not None:
            await self._swaps.settled()
        self._is_running = True
        self._turns += 1
        error: BaseException | None = None
        try:
            async with interruptible(self.coordinator.cancellation):
                return await self._start_turn(prompt)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._is_running = False
            await self._end_turn(error)

    async def swap(
        self, mount_point: str, spec: dict[str, Any], *, replaces: str | None = None
    ) -> None:
        """Swap a module in a running session.

        The new module is loaded and checked immediately and takes over at the next turn boundary.
        The old one is kept until the first good turn; a turn that fails restores it. Announced as
        `module:swapped` and `module:rolled_back`. `replaces` names the provider or tool to
        replace; by default the one of the same name, or the only one.

        Raises:
            ModuleError: the new module does not load, or does not fit the mount point.
        """
        if not self._initialized:
            raise NotInitializedError(session_id=self.session_id)
        if self._swaps is None:
            self._modules = modules = list(self._modules)
            self._swaps = Swaps(self.coordinator, modules)
        await self._swaps.stage(mount_point, spec, replaces)
        if not self._is_running:
            await self._swaps.at_boundary()

    def fork(
        self, overlay: dict[str, Any] | None = None, *, session_id: str | None = None
    ) -> AmplifierSession:
        """Return a child session, still to be initialized, with `overlay` merged into the plan.

        It has this session's guards, inheritable interposers, approval and display systems and
        module source resolver, and is cancelled with it. It can add to these, not remove them.
        """
        mine = self.coordinator
        child = AmplifierSession(
            self._merge_configs(self.config, overlay or {}),
            session_id=session_id,
            parent_id=self.session_id,
            approval_system=mine.approval_system,
            display_system=mine.display_system,
        )
        theirs = child.coordinator
        theirs.hooks.inherit_guards(mine.hooks)
        for each in mine.interposers:
            if each.inherit:
                theirs.interpose(
                    each.mount_point,
                    each.wrap,
                    name=each.name,
                    priority=each.priority,
                    inherit=True,
                )
        resolver = mine.mount_points["module-source-resolver"]
        theirs.mount_points["module-source-resolver"] = resolver
        mine.cancellation.register_child(theirs.cancellation)
        child._release_from_parent = lambda: mine.cancellation.unregister_child(theirs.cancellation)
        return child

    async def cleanup(self) -> None:
        """Announce the end, run the cleanups and undo the loader's changes to the import path."""
        try:
            if self._initialized:
                self._initialized = False
                stats = {"turns": self._turns}
                payload = {"session_id": self.session_id, "status": self._state, "stats": stats}
                await self.coordinator.hooks.emit(events.SESSION_END, payload)
        finally:
            try:
                await self.coordinator.cleanup()
            finally:
                self._swaps = None
                self.loader.cleanup()
                if self._release_from_parent is not None:
                    self._release_from_parent()

    async def __aenter__(self) -> AmplifierSession:
        await self.initialize()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.cleanup()

    def _start_turn(self, prompt: str) -> Awaitable[str]:
        coordinator = self.coordinator
        coordinator.reset_turn()
        get = coordinator.get
        arguments: dict[str, Any] = {
            "prompt": prompt,
            "context": get("context"),
            "providers": get("providers"),
            "tools": get("tools"),
            "hooks": coordinator.hooks,
        }
        orchestrator = get("orchestrator")
        if orchestrator is None:
            raise SessionError("No orchestrator module mounted", session_id=self.session_id)
        if arguments["context"] is None:
            raise SessionError("No context manager mounted", session_id=self.session_id)
        if not arguments["providers"]:
            raise SessionError("No providers mounted", session_id=self.session_id)
        execute = orchestrator.execute
        if accepts(execute, "coordinator"):
            arguments["coordinator"] = coordinator
        return execute(**arguments)

    async def _announce_start(self) -> None:
        self._announced = True
        hooks = self.coordinator.hooks
        await hooks.emit(
            events.SESSION_RESUME if self.is_resumed else events.SESSION_START,
            {"session_id": self.session_id, "parent_id": self.parent_id, **self._metadata()},
        )
        if self._setting("raw"):
            payload = {"session_id": self.session_id, "raw": redact_secrets(self.config)}
            await hooks.emit("session:config", payload)

    async def _end_turn(self, error: BaseException | None) -> None:
        """Record how a turn ended and close its history."""
        token = self.coordinator.cancellation
        if token.is_cancelled:
            self._state = "cancelled"
            await close_history(self.coordinator)
            details = {} if error is None else {"error": describe_error(error)}
            await self.coordinator.hooks.emit(
                events.CANCEL_COMPLETED, {"was_immediate": token.is_immediate, **details}
            )
        elif error is not None:
            self._state = "failed"
            self._last_error = {"message": describe_error(error), "type": type(error).__name__}
            await close_history(self.coordinator)
        else:
            self._state = "completed"
        # A cancelled turn is no evidence about the modules it ran with.
        if self._swaps is not None and not token.is_cancelled:
            self._swaps.turn_errors.append(error)

    def _setting(self, key: str) -> Any:
        return self.config["session"].get(key)

    def _metadata(self) -> dict[str, Any]:
        metadata = self._setting("metadata")
        return {"metadata": metadata} if metadata else {}

    @staticmethod
    def _merge_configs(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
        """Return `base` with `overlay` over it: dicts merge, everything else is replaced."""
        merged = dict(base)
        for key, value in overlay.items():
            if isinstance(value, dict) and isinstance(merged.get(key), dict):
                theirs = cast("dict[str, Any]", value)
                merged[key] = AmplifierSession._merge_configs(merged[key], theirs)
            else:
                merged[key] = value
        return merged


def _check_config(config: Any) -> None:
    if not config or not isinstance(config, dict):
        raise ValueError("Configuration is required")
    session: Any = cast("dict[str, Any]", config).get("session")
    for field in ("orchestrator", "context"):
        if not isinstance(session, dict) or not cast("Any", session).get(field):
            raise ValueError(f"Configuration must specify session.{field}")
