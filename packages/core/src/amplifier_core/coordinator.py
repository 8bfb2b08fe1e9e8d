"""The coordinator: where a session's modules are mounted and how they find each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import BuiltinMethodType, MethodType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast, overload

from amplifier_core._hook_results import carry_out
from amplifier_core._tasks import DONE, is_being_cancelled, limited, maybe_await
from amplifier_core.cancellation import CancellationToken
from amplifier_core.errors import MountError
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult

if TYPE_CHECKING:
    from amplifier_core.approval import ApprovalSystem
    from amplifier_core.display import DisplaySystem
    from amplifier_core.interfaces import ContextManager, Orchestrator, Provider, Tool
    from amplifier_core.loader import ModuleLoader

__all__ = ["ModuleCoordinator"]

logger: logging.Logger = logging.getLogger(__name__)

SINGLE = frozenset({"orchestrator", "context", "module-source-resolver"})
NAMED = frozenset({"providers", "tools"})

# Long enough for a server that has to be fetched first, short enough that the user is informed.
_MOUNT_SECONDS = 120.0
_CLEANUP_SECONDS = 30.0

Wrap: TypeAlias = Callable[[str, Any], Any]


class Contributor(TypedDict):
    """The name of a contributor to a channel, and its callback."""

    name: str
    callback: Callable[[], Any]


@dataclass(frozen=True, eq=False)
class Interposer:
    """One wrapper around the modules of one mount point."""

    mount_point: str
    wrap: Wrap
    name: str
    priority: int
    inherit: bool


class ModuleCoordinator:
    """The one object every module of a session is given.

    It has the mount points, the hooks, the capabilities and contribution channels, the
    cancellation token and the cleanups. It has no policy: modules decide which provider is used,
    what is allowed and what is remembered. Modules may put attributes of their own on it.
    """

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
        self._channels: dict[str, list[Contributor]] = {}
        self._capabilities: dict[str, Any] = {}
        self._interpositions: dict[str, _Interposition] = {}
        self._cleanup_fns: list[Callable[[], Any]] = []
        self._current_turn_injections = 0
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
        # Set by the session; a coordinator on its own has none.
        self.loader: ModuleLoader | None = None
        # For the app and the modules, for the life of the session.
        self.session_state: dict[str, Any] = {}

    # The contract makes what identifies a session read-only: it cannot be replaced by accident.

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
        """The mount plan, the same object that the session was given."""
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
        return self._channels

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
            MountError: unknown mount point, no name, or an attempt to mount a hook.
        """
        # Not `async def`: the source contract mounts without awaiting, and Python would warn.
        mount_point, name = self._known(mount_point, name)
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
        return DONE

    def unmount(self, mount_point: str, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Unmount immediately. Unknown names are ignored. Does not run cleanups."""
        mount_point, name = self._known(mount_point, name)
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

    @overload
    def get(self, mount_point: Literal["providers"], name: None = None) -> dict[str, Provider]: ...
    @overload
    def get(self, mount_point: Literal["providers"], name: str) -> Provider | None: ...
    @overload
    def get(self, mount_point: Literal["tools"], name: None = None) -> dict[str, Tool]: ...
    @overload
    def get(self, mount_point: Literal["tools"], name: str) -> Tool | None: ...
    @overload
    def get(
        self, mount_point: Literal["context"], name: str | None = None
    ) -> ContextManager | None: ...
    @overload
    def get(
        self, mount_point: Literal["orchestrator"], name: str | None = None
    ) -> Orchestrator | None: ...
    @overload
    def get(self, mount_point: Literal["hooks"], name: str | None = None) -> HookRegistry: ...
    @overload
    def get(self, mount_point: str, name: str | None = None) -> Any: ...

    def get(self, mount_point: str, name: str | None = None) -> Any:
        """Return what is mounted there, wrapped by the interposers.

        Named slots return the live mapping, or with `name` one module or None. Without interposers
        this is the mounted object itself.
        """
        mount_point, name = self._known(mount_point, name)
        mounted: Any = self.mount_points[mount_point]
        interposition = self._interpositions.get(mount_point)
        if interposition is not None:
            mounted = interposition.present(mounted)
        if mount_point in NAMED:
            return mounted if name is None else mounted.get(name)
        return mounted if mount_point in SINGLE or mount_point == "hooks" else None

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

        `wrap(name, module)` returns an object of the same protocol. All callers of `get` receive
        it, orchestrators included; `mount_points` stays as it is. Lower priority is nearer to the
        caller. With `inherit`, sessions forked from this one get it too.
        """
        if mount_point not in SINGLE | NAMED:
            raise MountError(f"Unknown mount point: {mount_point}", mount_point=mount_point)
        interposer = Interposer(mount_point, wrap, name, priority, inherit)
        interposition = self._interpositions.setdefault(mount_point, _Interposition(mount_point))

        def remove() -> None:
            interposition.use(
                [each for each in interposition.interposers if each is not interposer]
            )
            self._refresh(mount_point)

        interposition.use([*interposition.interposers, interposer])
        try:
            self._refresh(mount_point)
        except BaseException:
            remove()
            raise
        return remove

    @property
    def interposers(self) -> list[Interposer]:
        """Every wrapper in effect, outermost first within its mount point."""
        return [each for them in self._interpositions.values() for each in them.interposers]

    def register_capability(self, name: str, value: Any) -> None:
        """Offer `value` to other modules under `name`."""
        self._capabilities[name] = value

    def get_capability(self, name: str) -> Any:
        """Return the capability, or None if no module offers it."""
        return self._capabilities.get(name)

    def register_contributor(self, channel: str, name: str, callback: Callable[[], Any]) -> None:
        """Call `callback`, sync or async, whenever `channel` is collected."""
        contributor: Contributor = {"name": name, "callback": callback}
        self._channels.setdefault(channel, []).append(contributor)

    async def collect_contributions(self, channel: str) -> list[Any]:
        """Call the contributors of `channel` in registration order and return their values.

        None is no contribution; a failure is logged and skipped. A contributor that raises
        CancelledError ends the collection with the values so far.
        """
        contributions: list[Any] = []
        for contributor in list(self._channels.get(channel, ())):
            name = contributor["name"]
            try:
                contribution = await maybe_await(contributor["callback"]())
            except asyncio.CancelledError:
                if is_being_cancelled():
                    raise
                logger.warning("collection ended early channel=%s contributor=%s", channel, name)
                break
            except Exception:
                logger.warning(
                    "contributor failed channel=%s contributor=%s", channel, name, exc_info=True
                )
                continue
            if contribution is not None:
                contributions.append(contribution)
        return contributions

    def count_injection(self, tokens: int) -> int:
        """Add to the tokens that hooks injected in this turn and return their sum."""
        self._current_turn_injections += tokens
        return self._current_turn_injections

    async def process_hook_result(
        self, result: HookResult, event: str, hook_name: str = "unknown"
    ) -> HookResult:
        """Carry out a hook result; return what the orchestrator has to act on.

        Raises:
            ValueError: an injection is larger than `injection_size_limit`; nothing is injected.
        """
        return await carry_out(self, result, event, hook_name)

    def reset_turn(self) -> None:
        """Start counting injections from zero."""
        self._current_turn_injections = 0

    async def request_cancel(self, immediate: bool = False) -> None:
        """Ask the session to stop, after the running step or immediately."""
        if immediate:
            self._cancellation.request_immediate()
        else:
            self._cancellation.request_graceful()

    def register_cleanup(self, cleanup_fn: Any) -> None:
        """Run `cleanup_fn`, sync or async, when the session ends; the same one only once.

        Some modules both register a cleanup and return it from `mount`.
        """
        is_known = any(_is_same(each, cleanup_fn) for each in self._cleanup_fns)
        if callable(cleanup_fn) and not is_known:
            self._cleanup_fns.append(cleanup_fn)

    async def release(self, cleanup: Callable[[], Any]) -> None:
        """Run one cleanup before the others, only once; a failure or a timeout is logged."""
        others = [each for each in self._cleanup_fns if not _is_same(each, cleanup)]
        self._cleanup_fns[:] = others
        try:
            seconds = self._session_setting("cleanup_timeout") or _CLEANUP_SECONDS
            await limited(seconds, maybe_await(cleanup()))
        except Exception:
            logger.exception("Error during cleanup: %r", cleanup)

    async def cleanup(self) -> None:
        """Run every cleanup, last registered first, each once.

        A failure is logged and the rest continues. Anything that is not an Exception (a
        cancellation, KeyboardInterrupt) is raised again after all have run.
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
            "capabilities": list(self._capabilities),
            "has_approval_provider": self.approval_system is not None,
            "has_display_service": self.display_system is not None,
        }

    def describe(self) -> dict[str, Any]:
        """Return what the session consists of, as plain data for `json.dumps`.

        `mounted` has each module with its class, the id of its module if known, and its wrappers,
        outermost first; `handlers` the hook handlers of each event in the order they run;
        `capabilities` the names; `contributors` the names by channel.
        """
        mounted: dict[str, Any] = {}
        for mount_point, slot in self.mount_points.items():
            if mount_point in NAMED:
                mounted[mount_point] = {
                    name: self._describe_module(mount_point, name, module)
                    for name, module in slot.items()
                }
            elif mount_point in SINGLE:
                mounted[mount_point] = self._describe_module(mount_point, mount_point, slot)
        return {
            "session_id": self._session_id,
            "parent_id": self._parent_id,
            "mounted": mounted,
            "handlers": self._hooks.describe(),
            "capabilities": list(self._capabilities),
            "contributors": {
                channel: [each["name"] for each in contributors]
                for channel, contributors in self._channels.items()
            },
        }

    def _known(self, mount_point: str, name: str | None) -> tuple[str, str | None]:
        """Return an existing mount point; ("session", "orchestrator"|"context") is an alias."""
        if mount_point == "session" and name in ("orchestrator", "context"):
            return name, None
        if mount_point not in self.mount_points:
            raise MountError(f"Unknown mount point: {mount_point}", mount_point=mount_point)
        return mount_point, name

    def _describe_module(self, mount_point: str, name: str, module: Any) -> dict[str, Any] | None:
        if module is None:
            return None
        interposition = self._interpositions.get(mount_point, _Interposition(mount_point))
        module_of = getattr(self._session, "module_of", None)
        return {
            "class": _class_name(module),
            "module": None if module_of is None else module_of(module),
            "wrapped_by": [
                {
                    "name": interposer.name,
                    "class": _class_name(wrapper),
                    "priority": interposer.priority,
                    "inherit": interposer.inherit,
                }
                for interposer, wrapper in reversed(interposition.layers(name, module))
            ],
        }

    def _refresh(self, mount_point: str) -> None:
        """Update the mapping of a named mount point, which callers may have kept."""
        interposition = self._interpositions.get(mount_point)
        if interposition is not None and mount_point in NAMED:
            interposition.present(self.mount_points[mount_point])

    def _session_setting(self, key: str) -> Any:
        config = self._config
        session = cast("dict[str, Any]", config).get("session") if type(config) is dict else None
        return cast("dict[str, Any]", session).get(key) if isinstance(session, dict) else None


# An interposer, and the wrapper that it made.
_Layer: TypeAlias = tuple[Interposer, Any]


@dataclass
class _Interposition:
    """The interposers of one mount point, outermost first, and the wrappers of its modules.

    A module is wrapped once and keeps its wrapper until it or the set of interposers changes, so
    that reading twice gives the same object.
    """

    mount_point: str
    interposers: list[Interposer] = field(default_factory=list["Interposer"])
    # By name: the module and the layers around it, innermost first.
    wrapped: dict[str, tuple[Any, list[_Layer]]] = field(
        default_factory=dict[str, tuple[Any, list[_Layer]]]
    )
    # One dict for the life of the session, so that an orchestrator that keeps it sees changes.
    mapping: dict[str, Any] = field(default_factory=dict[str, Any])

    def use(self, interposers: list[Interposer]) -> None:
        """Use exactly these interposers for every module of the mount point."""
        # A new list: a wrapper that adds another one must not change the list being applied.
        self.interposers = sorted(interposers, key=lambda each: each.priority)
        self.wrapped.clear()

    def present(self, mounted: Any) -> Any:
        """Return what is mounted, wrapped for callers."""
        if self.mount_point not in NAMED:
            return self._outermost(self.mount_point, mounted)
        current = {name: self._outermost(name, module) for name, module in mounted.items()}
        # Not touched if nothing changed, because a caller may be iterating over it.
        if _identities(self.mapping) != _identities(current):
            self.mapping.clear()
            self.mapping.update(current)
        return self.mapping if self.interposers else mounted

    def layers(self, name: str, module: Any) -> list[_Layer]:
        """Return the layers around `module`, innermost first."""
        known, layers = self.wrapped.get(name, (None, list[_Layer]()))
        if known is not module:
            layers = list[_Layer]()
            inner = module
            for interposer in reversed(self.interposers):
                wrapper = interposer.wrap(name, inner)
                # An interposer may choose not to wrap this module.
                if wrapper is not inner:
                    layers.append((interposer, wrapper))
                inner = wrapper
            self.wrapped[name] = (module, layers)
        return layers

    def _outermost(self, name: str, module: Any) -> Any:
        layers = [] if module is None else self.layers(name, module)
        return layers[-1][1] if layers else module


def _identities(modules: dict[str, Any]) -> list[tuple[str, int]]:
    return [(name, id(module)) for name, module in modules.items()]


def _class_name(value: object) -> str:
    cls = type(value)
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_same(one: object, other: object) -> bool:
    """Whether two callables are the same; a method is a new object each time it is looked up."""
    return one is other or (isinstance(one, MethodType | BuiltinMethodType) and one == other)


def _own_name(mount_point: str, module: Any) -> str:
    name = getattr(module, "name", None)
    if name is None:
        raise MountError(f"Name required for {mount_point}", mount_point=mount_point)
    if not isinstance(name, str):
        raise TypeError(f"a module's name must be a str, not {type(name).__name__}")
    return name
