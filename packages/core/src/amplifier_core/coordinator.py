"""The coordinator: where a session's modules are mounted and how they find each other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from types import BuiltinMethodType, MethodType
from typing import TYPE_CHECKING, Any, cast

from amplifier_core._contributions import Contributor, collect
from amplifier_core._hook_results import carry_out
from amplifier_core._interposition import Interposer, Interposition, Wrap
from amplifier_core._tasks import DONE, limited, settled
from amplifier_core.cancellation import CancellationToken
from amplifier_core.errors import MountError
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult

if TYPE_CHECKING:
    from amplifier_core.approval import ApprovalSystem
    from amplifier_core.display import DisplaySystem
    from amplifier_core.loader import ModuleLoader

__all__ = ["ModuleCoordinator"]

logger = logging.getLogger(__name__)

SINGLE = frozenset({"orchestrator", "context", "module-source-resolver"})
NAMED = frozenset({"providers", "tools"})

# Long enough for a server that has to be fetched first, short enough that somebody is told.
_MOUNT_SECONDS = 120.0
_CLEANUP_SECONDS = 30.0


class ModuleCoordinator:
    """The one object every module of a session is given.

    It holds the mount points, the hooks, the capabilities and contribution channels, the
    cancellation token and the cleanups. It decides nothing: which provider is used, what is
    allowed and what is remembered is the modules' business. Modules may put attributes of their
    own on it.
    """

    # Set by the session; a coordinator on its own has none.
    loader: ModuleLoader | None = None
    _current_turn_injections = 0
    # Most sessions need few of these: each is made on first use.
    _channels: dict[str, list[Contributor]] | None = None
    _capabilities: dict[str, Any] | None = None
    _interpositions: dict[str, Interposition] | None = None
    _session_state: dict[str, Any] | None = None

    def __init__(
        self,
        session: Any = None,
        approval_system: ApprovalSystem | None = None,
        display_system: DisplaySystem | None = None,
    ) -> None:
        self._session = session
        self._session_id: str = "" if session is None else session.session_id
        self._parent_id: str | None = None if session is None else session.parent_id
        self._config: Any = {} if session is None else session.config
        self._hooks = HookRegistry()
        if session is not None:
            self._hooks.set_default_fields(session_id=self._session_id, parent_id=self._parent_id)
        self._cancellation = CancellationToken()
        self._cleanup_fns: list[Callable[[], Any]] = []
        self.mount_points: dict[str, Any] = {
            "orchestrator": None,
            "providers": {},
            "tools": {},
            "context": None,
            "hooks": self._hooks,
            "module-source-resolver": None,
        }
        self.approval_system = approval_system
        self.display_system = display_system

    @property
    def session(self) -> Any:
        """The session this coordinator belongs to."""
        return self._session

    @property
    def session_id(self) -> str:
        """The session's id; empty without a session."""
        return self._session_id

    @property
    def parent_id(self) -> str | None:
        """The id of the session this one was forked from."""
        return self._parent_id

    @property
    def config(self) -> Any:
        """The mount plan, the very object the session was given."""
        return self._config

    @property
    def hooks(self) -> HookRegistry:
        """The session's hook registry."""
        return self._hooks

    @property
    def cancellation(self) -> CancellationToken:
        """The session's cancellation token."""
        return self._cancellation

    @property
    def channels(self) -> dict[str, list[Contributor]]:
        """The contributors by channel, in the order they registered."""
        if self._channels is None:
            self._channels = {}
        return self._channels

    @property
    def session_state(self) -> dict[str, Any]:
        """A dict of the app's and the modules' own, for the life of the session."""
        if self._session_state is None:
            self._session_state = {}
        return self._session_state

    @session_state.setter
    def session_state(self, state: dict[str, Any]) -> None:
        self._session_state = state

    @property
    def injection_budget_per_turn(self) -> int | None:
        """Tokens that hooks may inject per turn before a warning; None is no limit."""
        return self._session_setting("injection_budget_per_turn")

    @property
    def injection_size_limit(self) -> int | None:
        """Characters one injection may have; None is no limit."""
        return self._session_setting("injection_size_limit")

    @property
    def mount_timeout(self) -> float:
        """Seconds that a module may take to mount."""
        return self._session_setting("mount_timeout") or _MOUNT_SECONDS

    def mount(
        self, mount_point: str, module: Any, name: str | None = None
    ) -> Coroutine[Any, Any, None]:
        """Mount `module` immediately. The returned coroutine does nothing; it may be awaited.

        Single slots replace what was there. Named slots use `name`, else `module.name`.

        Raises:
            MountError: unknown mount point, no name to be had, or an attempt to mount a hook.
        """
        if mount_point == "session":
            mount_point, name = _canonical(mount_point, name)
        if mount_point in NAMED:
            if name is None:
                name = _own_name(mount_point, module)
            self.mount_points[mount_point][name] = module
            self._refresh(mount_point)
        elif mount_point in SINGLE:
            if mount_point == "orchestrator" and self.mount_points[mount_point] is not None:
                logger.warning("orchestrator replaced session=%s", self._session_id)
            self.mount_points[mount_point] = module
        elif mount_point == "hooks":
            raise MountError(
                "Hooks should be registered directly with the HookRegistry", mount_point=mount_point
            )
        elif mount_point not in self.mount_points:
            raise MountError(f"Unknown mount point: {mount_point}", mount_point=mount_point)
        return DONE

    def unmount(self, mount_point: str, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Unmount immediately. Unknown names are ignored. Does not run cleanups."""
        mount_point, name = _canonical(mount_point, name)
        if mount_point not in self.mount_points:
            raise MountError(f"Unknown mount point: {mount_point}", mount_point=mount_point)
        if mount_point in SINGLE:
            self.mount_points[mount_point] = None
        elif mount_point in NAMED:
            if name is None:
                raise MountError(
                    f"Name required to unmount from {mount_point}", mount_point=mount_point
                )
            self.mount_points[mount_point].pop(name, None)
            self._refresh(mount_point)
        return DONE

    def get(self, mount_point: str, name: str | None = None) -> Any:
        """Return what is mounted there, as the interposers present it.

        Named slots return the live mapping, or with `name` one module or None. Without interposers
        this is the very object that was mounted.
        """
        if mount_point == "session":
            mount_point, name = _canonical(mount_point, name)
        if mount_point not in self.mount_points:
            raise MountError(f"Unknown mount point: {mount_point}", mount_point=mount_point)
        mounted: Any = self.mount_points[mount_point]
        wrappers = self._interpositions
        interposition = wrappers.get(mount_point) if wrappers else None
        if mount_point in NAMED:
            if name is None:
                return interposition.all(mounted) if interposition else mounted
            module = mounted.get(name)
            return interposition.one(name, module) if interposition else module
        if mount_point in SINGLE:
            return interposition.one(mount_point, mounted) if interposition else mounted
        return mounted if mount_point == "hooks" else None

    def get_mounted(self, mount_point: str) -> Any:
        """Return what `get` returns for the whole mount point."""
        return self.get(mount_point)

    def interpose(
        self,
        mount_point: str,
        wrap: Wrap,
        *,
        name: str,
        priority: int = 0,
        inherit: bool = False,
    ) -> Callable[[], None]:
        """Put `wrap` around every module of `mount_point`; the returned function undoes this.

        `wrap(name, module)` returns an object of the same protocol. Whoever reads through `get`
        sees it, orchestrators included; `mount_points` stays as it is. Lower priority stands
        nearer to the caller. With `inherit`, sessions forked from this one get it too.
        """
        if mount_point not in SINGLE | NAMED:
            raise MountError(f"Unknown mount point: {mount_point}", mount_point=mount_point)
        interposer = Interposer(mount_point, wrap, name, priority, inherit=inherit)
        if self._interpositions is None:
            self._interpositions = {}
        interposition = self._interpositions.setdefault(mount_point, Interposition())

        def remove() -> None:
            interposition.remove(interposer)
            self._refresh(mount_point)

        interposition.add(interposer)
        try:
            self._refresh(mount_point)
        except BaseException:
            remove()
            raise
        return remove

    @property
    def interposers(self) -> list[Interposer]:
        """Every wrapper in force, outermost first within its mount point."""
        interpositions = self._interpositions or {}
        return [each for them in interpositions.values() for each in them.interposers]

    def register_capability(self, name: str, value: Any) -> None:
        """Offer `value` to other modules under `name`."""
        if self._capabilities is None:
            self._capabilities = {}
        self._capabilities[name] = value

    def get_capability(self, name: str) -> Any:
        """Return the capability, or None when nobody offers it."""
        return None if self._capabilities is None else self._capabilities.get(name)

    def register_contributor(self, channel: str, name: str, callback: Callable[[], Any]) -> None:
        """Ask `callback`, sync or async, whenever `channel` is collected."""
        contributor: Contributor = {"name": name, "callback": callback}
        self.channels.setdefault(channel, []).append(contributor)

    async def collect_contributions(self, channel: str) -> list[Any]:
        """Return what the contributors of `channel` have to give, in registration order."""
        return await collect(channel, self.channels.get(channel, []))

    async def process_hook_result(
        self, result: HookResult, event: str, hook_name: str = "unknown"
    ) -> HookResult:
        """Do what a hook result asks for; returns what the orchestrator has to act on.

        Raises:
            ValueError: an injection is larger than `injection_size_limit`; nothing is injected.
        """
        asks_for_nothing = result.action == "continue" and not (
            result.user_message or result.user_messages or result.suppress_output
        )
        if asks_for_nothing:
            return result
        return await carry_out(self, result, event, hook_name)

    def reset_turn(self) -> None:
        """Start counting injections anew."""
        self._current_turn_injections = 0

    def count_injection(self, tokens: int) -> int:
        """Add to the tokens that hooks injected in this turn and return their number."""
        self._current_turn_injections += tokens
        return self._current_turn_injections

    async def request_cancel(self, immediate: bool = False) -> None:
        """Ask the session to stop, after the running step or at once."""
        if immediate:
            self._cancellation.request_immediate()
        else:
            self._cancellation.request_graceful()

    def register_cleanup(self, cleanup_fn: Any) -> None:
        """Run `cleanup_fn`, sync or async, when the session ends; the same one only once.

        Modules register a cleanup and return it too, so it may come twice.
        """
        if callable(cleanup_fn) and self._position_of(cleanup_fn) is None:
            self._cleanup_fns.append(cleanup_fn)

    async def release(self, cleanup: Callable[[], Any]) -> None:
        """Run one cleanup ahead of the others, and not again with them.

        A failure is logged, and so is a cleanup that does not end in time.
        """
        position = self._position_of(cleanup)
        if position is not None:
            del self._cleanup_fns[position]
        try:
            seconds = self._session_setting("cleanup_timeout") or _CLEANUP_SECONDS
            await limited(seconds, settled(cleanup()))
        except Exception:
            logger.exception("Error during cleanup: %r", cleanup)

    async def cleanup(self) -> None:
        """Run every cleanup, last registered first, each once.

        A failure is logged and the rest goes on. What is not an Exception (a cancellation,
        KeyboardInterrupt) is raised again after all have run.
        """
        fatal: BaseException | None = None
        while self._cleanup_fns:
            cleanup: Any = self._cleanup_fns.pop()
            if not callable(cleanup):
                continue
            try:
                await self.release(cleanup)
            except BaseException as error:  # noqa: BLE001 - kept and raised below, after the rest
                logger.warning("cleanup interrupted by %s: %r", type(error).__name__, cleanup)
                fatal = fatal or error
        if fatal is not None:
            raise fatal

    def to_dict(self) -> dict[str, Any]:
        """Return what is mounted, by name."""
        return {
            "tools": list(self.mount_points["tools"]),
            "providers": list(self.mount_points["providers"]),
            "has_orchestrator": self.mount_points["orchestrator"] is not None,
            "has_context": self.mount_points["context"] is not None,
            "capabilities": list(self._capabilities or ()),
            "has_approval_provider": self.approval_system is not None,
            "has_display_service": self.display_system is not None,
        }

    def _position_of(self, cleanup: Callable[[], Any]) -> int | None:
        for position, known in enumerate(self._cleanup_fns):
            if _is_same(known, cleanup):
                return position
        return None

    def _refresh(self, mount_point: str) -> None:
        if self._interpositions and mount_point in NAMED and mount_point in self._interpositions:
            self._interpositions[mount_point].all(self.mount_points[mount_point])

    def _session_setting(self, key: str) -> Any:
        config = self._config
        session = cast("dict[str, Any]", config).get("session") if type(config) is dict else None
        return cast("dict[str, Any]", session).get(key) if isinstance(session, dict) else None


def _canonical(mount_point: str, name: str | None) -> tuple[str, str | None]:
    """Return the mount point that ("session", "orchestrator"|"context") stands for."""
    if mount_point == "session" and name in ("orchestrator", "context"):
        return name, None
    return mount_point, name


def _is_same(one: Callable[[], Any], other: Callable[[], Any]) -> bool:
    """Whether two callables are one. A method is a new object each time it is looked up."""
    if isinstance(one, MethodType | BuiltinMethodType):
        return one == other
    return one is other


def _own_name(mount_point: str, module: Any) -> str:
    name = getattr(module, "name", None)
    if name is None:
        raise MountError(f"Name required for {mount_point}", mount_point=mount_point)
    if not isinstance(name, str):
        raise TypeError(f"a module's name must be a str, not {type(name).__name__}")
    return name
