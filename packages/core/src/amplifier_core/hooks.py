"""The hook registry: who hears which event, and what their answers add up to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast
from weakref import WeakSet

from amplifier_core._isolation import OpaquePayload, Payload, convert
from amplifier_core._tasks import is_awaitable, is_being_cancelled, limited
from amplifier_core._verdict import INVALID_ANSWER, Verdict, parse_answer
from amplifier_core.correlation import CORRELATED_EVENTS, REQUEST_ID_FIELD, resolve_request_id
from amplifier_core.errors import describe_error
from amplifier_core.events import HOOK_FAILED
from amplifier_core.models import ContextInjection, HookResult

__all__ = ["ContextInjection", "HookRegistry", "HookResult"]

logger = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[str, Any], Any]
OnError: TypeAlias = Literal["continue", "deny"]


@dataclass(eq=False)
class _Registration:
    """One handler of one event."""

    owner: HookRegistry
    event: str
    handler: Handler
    priority: int
    name: str
    timeout: float | None
    on_error: OnError


class HookRegistry:
    """Calls handlers in priority order and merges their answers into one.

    A handler never shares data with the caller or with another handler: each gets its own
    JSON-safe copy, and only a `modify` answer changes what the next one and the caller see. Values
    that no handler changed come back as the caller's own objects.
    """

    SESSION_START = "session:start"
    SESSION_END = "session:end"
    PROMPT_SUBMIT = "prompt:submit"
    TOOL_PRE = "tool:pre"
    TOOL_POST = "tool:post"
    CONTEXT_PRE_COMPACT = "context:pre_compact"
    ORCHESTRATOR_COMPLETE = "orchestrator:complete"
    USER_NOTIFICATION = "user:notification"

    def __init__(self) -> None:
        # Tuples, so that the one an emit iterates over is a snapshot by itself.
        self._handlers: dict[str, tuple[_Registration, ...]] = {}
        self._defaults: dict[str, Any] = {}
        self._heirs: WeakSet[HookRegistry] = WeakSet()
        self._names_given = 0

    def register(
        self,
        event: str,
        handler: Handler,
        priority: int = 0,
        name: str | None = None,
        *,
        timeout: float | None = None,
        on_error: OnError = "continue",
    ) -> Callable[[], None]:
        """Call `handler` on every `event`; the returned function undoes this, once.

        Lower `priority` runs earlier; equal priorities keep registration order. `timeout` is in
        seconds. With `on_error="deny"` the handler is a guard: when it raises or times out, the
        answer is a denial, and child sessions inherit it.
        """
        if type(priority) is not int:
            raise TypeError(f"priority must be an int, not {type(priority).__name__}")
        if on_error not in ("continue", "deny"):
            raise ValueError(f"on_error must be 'continue' or 'deny', not {on_error!r}")
        name = name or self._next_name(handler)
        registration = _Registration(self, event, handler, priority, name, timeout, on_error)
        self._add(registration)

        def unregister() -> None:
            self._remove(registration)

        return unregister

    on = register

    def unregister(self, name: str) -> None:
        """Remove every handler registered here under `name`; inherited guards stay."""
        for registrations in list(self._handlers.values()):
            for registration in registrations:
                if registration.name == name and registration.owner is self:
                    self._remove(registration)

    def list_handlers(self, event: str | None = None) -> dict[str, list[str]]:
        """Return the handlers' names in the order they run, by event."""
        if event is not None:
            return {event: [each.name for each in self._handlers.get(event, ())]}
        return {name: [each.name for each in them] for name, them in self._handlers.items()}

    def has_handlers(self, event: str) -> bool:
        """Whether anybody would hear `event`; saves preparing what nobody listens to."""
        return bool(self._handlers.get(event))

    def list_guards(self) -> dict[str, list[str]]:
        """Return the names of the handlers that deny when they fail, by event."""
        guards = {
            event: [each.name for each in them if each.on_error == "deny"]
            for event, them in self._handlers.items()
        }
        return {event: names for event, names in guards.items() if names}

    def describe(self) -> dict[str, list[dict[str, Any]]]:
        """Return the handlers of each event in the order they run, as plain data.

        `owner` is the id of the session that registered the handler: an inherited guard has that
        of an ancestor, and a registry without a session has None.
        """
        return {
            event: [
                {
                    "name": each.name,
                    "priority": each.priority,
                    "guard": each.on_error == "deny",
                    "owner": each.owner._defaults.get("session_id"),
                }
                for each in registrations
            ]
            for event, registrations in self._handlers.items()
            if registrations
        }

    def set_default_fields(self, **fields: Any) -> None:
        """Put `fields` under the data of every event from now on; replaces earlier ones."""
        self._defaults = fields

    def inherit_guards(self, parent: HookRegistry) -> None:
        """Run the guards of `parent` here as well, those it has now and those it gets later.

        An inherited guard leaves when the parent removes it; `unregister` here cannot remove it.
        """
        parent._heirs.add(self)
        for registrations in list(parent._handlers.values()):
            for registration in registrations:
                if registration.on_error == "deny":
                    self._add(registration)

    async def emit(self, event: str, data: Any) -> HookResult:
        """Call every handler of `event`, in order, and return what their answers add up to.

        deny ends the round immediately; otherwise the first ask_user, else all injections merged,
        else continue. An edit survives in `data` whatever the action, and so do user messages.
        """
        if event in CORRELATED_EVENTS:
            data = _correlated(event, data)
        verdict = Verdict(event)
        registrations = self._handlers.get(event)
        if not registrations:
            mapping = _as_dict(data)
            return verdict.result({} if mapping is None else mapping)
        payload = self._payload(data)
        for registration in registrations:
            result = await self._ask(registration, payload.view(), registration.timeout)
            if result.action == "modify" and result.data is not None:
                try:
                    payload.replace(result.data)
                except Exception:
                    logger.exception(
                        "hook edit not usable event=%s by=%s", event, registration.name
                    )
                    result = HookResult(action="deny", reason=INVALID_ANSWER)
            if result.action == "deny":
                return verdict.denial(result)
            verdict.add(result, registration.name)
        return verdict.result(payload.current)

    async def emit_and_collect(
        self, event: str, data: Any, timeout: float | None = 1.0
    ) -> list[dict[str, Any]]:
        """Ask every handler of `event` in turn and return the data of those that gave some.

        Actions mean nothing here. `timeout` is in seconds and per handler, None for no limit; a
        handler that fails or takes longer is logged and skipped.
        """
        collected: list[dict[str, Any]] = []
        mapping = _as_dict(data)
        payload = OpaquePayload(data) if mapping is None else Payload(mapping.copy())
        for registration in self._handlers.get(event, ()):
            result = await self._ask(registration, payload.view(), timeout)
            if result.data is not None:
                collected.append(result.data)
        return collected

    async def _ask(
        self, registration: _Registration, view: Any, timeout: float | None
    ) -> HookResult:
        """Return the answer of one handler, which has `timeout` seconds for it."""
        try:
            answer = registration.handler(registration.event, view)
            if is_awaitable(answer):
                answer = await limited(timeout, answer)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - logged there
            return await self._failed(registration, error)
        return parse_answer(answer, registration.event, registration.name)

    async def _failed(self, registration: _Registration, error: BaseException) -> HookResult:
        """Announce that a handler failed and return its answer: a guard's is a denial."""
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise error
        event = registration.event
        name = registration.name
        denied = registration.on_error == "deny"
        logger.error("hook failed event=%s handler=%s", event, name, exc_info=error)
        text = describe_error(error)
        # A failing handler of hook:failed is only logged, to avoid infinite recursion.
        if event != HOOK_FAILED:
            facts = {"event": event, "handler": name, "error": text, "denied": denied}
            await self.emit(HOOK_FAILED, facts)
        if denied:
            return HookResult(action="deny", reason=f"Guard `{name}` failed on {event}: {text}")
        return HookResult(action="continue")

    def _payload(self, data: Any) -> Payload:
        mapping = _as_dict(data)
        if mapping is None:
            return OpaquePayload(data)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        return Payload({**self._defaults, **mapping, "timestamp": now})

    def _next_name(self, handler: Handler) -> str:
        self._names_given += 1
        return f"{getattr(handler, '__name__', type(handler).__name__)}-{self._names_given}"

    def _add(self, registration: _Registration) -> None:
        together = [*self._handlers.get(registration.event, ()), registration]
        # The sort is stable: equal priorities keep the order they came in.
        together.sort(key=lambda each: each.priority)
        self._handlers[registration.event] = tuple(together)
        if registration.on_error == "deny":
            for heir in self._heirs:
                heir._add(registration)

    def _remove(self, registration: _Registration) -> None:
        remaining = self._handlers.get(registration.event, ())
        self._handlers[registration.event] = tuple(r for r in remaining if r is not registration)
        for heir in self._heirs:
            heir._remove(registration)


def _as_dict(data: Any) -> dict[str, Any] | None:
    """Return `data` as a dict if it is a mapping or a model, else None."""
    if type(data) is dict:
        return cast("dict[str, Any]", data)
    converted = convert(data)
    return cast("dict[str, Any]", converted) if isinstance(converted, dict) else None


def _correlated(event: str, data: Any) -> Any:
    """Return the data of a model call's event with the id of that call, when there is one."""
    mapping = _as_dict(data)
    if mapping is None:
        return data
    request_id = resolve_request_id(event, mapping.get(REQUEST_ID_FIELD))
    return mapping if request_id is None else {**mapping, REQUEST_ID_FIELD: request_id}
