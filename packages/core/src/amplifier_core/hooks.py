"""The hook registry: which handlers receive an event, and how their answers are merged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from amplifier_core._isolation import Payload, as_dict
from amplifier_core._tasks import is_being_cancelled, limited, maybe_await
from amplifier_core.correlation import (
    CORRELATED_EVENTS,
    REQUEST_ID_FIELD,
    TOOL_CALL_EVENTS,
    follow_tool_call,
    resolve_request_id,
)
from amplifier_core.errors import describe_error
from amplifier_core.events import HOOK_FAILED
from amplifier_core.models import ContextInjection, HookResult, UserMessage

__all__ = [
    "ContextInjection",
    "DEFAULT_TIMEOUT",
    "EVERY_EVENT",
    "HookRegistry",
    "HookResult",
    "HookTrace",
]

logger: logging.Logger = logging.getLogger(__name__)

INVALID_ANSWER = "Hook handler returned invalid response"


def parse_answer(answer: Any, event: str, handler_name: str) -> HookResult:
    """Return `answer` as a HookResult; None continues, and anything invalid denies.

    A handler with an invalid answer may have meant to deny, so that is the safe interpretation.
    """
    if isinstance(answer, HookResult):
        return answer
    try:
        return HookResult.model_validate({} if answer is None else answer)
    except ValidationError:
        logger.exception("hook answer not valid event=%s handler=%s", event, handler_name)
        return HookResult(action="deny", reason=INVALID_ANSWER)


# The name of a handler, and its answer.
Answer: TypeAlias = tuple[str, HookResult]


def merge_denial(denial: HookResult, handler_name: str, earlier: list[Answer]) -> HookResult:
    """Return `denial` with the name of its handler and the messages of earlier handlers."""
    messages = [message for name, answer in earlier for message in answer.messages(name)]
    messages += denial.user_messages
    return denial.model_copy(update={"denied_by": handler_name, "user_messages": messages})


def merge_answers(answers: list[Answer], event: str, data: dict[str, Any]) -> HookResult:
    """Merge the answers to one emit in which no handler denied."""
    asking = [answer for _, answer in answers if answer.action == "ask_user"]
    injecting: list[HookResult] = []
    injections: list[ContextInjection] = []
    for name, answer in answers:
        own = answer.injections(name, event) if answer.action == "inject_context" else []
        if own:
            injecting.append(answer)
        # Marked with its real origin, whatever its handler says.
        origin = {"hook_name": name, "event": event}
        injections += [each.model_copy(update=origin) for each in own]
    base = None
    if asking:
        base = asking[0]
    elif len(injecting) == 1:
        base = injecting[0]
    messages: list[UserMessage] = []
    for name, answer in answers:
        # The base keeps its own message in its single field. A handler that emits an event itself
        # passes on the messages that it received.
        messages += answer.user_messages if answer is base else answer.messages(name)
    if base is not None:
        result = base.model_copy()
    else:
        # This result belongs to no handler, so the first message goes into the single field.
        result = HookResult(action="continue")
        if injections:
            result = result.with_injections(injections)
        if messages:
            first = messages.pop(0)
            result.user_message = first.text
            result.user_message_level = first.level
            result.user_message_source = first.source
    result.user_messages = messages
    # Only `modify` changes the data, so the data of any other answer is dropped; so are injections
    # that came with a question.
    result.data = data
    result.suppress_output = any(answer.suppress_output for _, answer in answers)
    result.context_injections = injections
    return result


EVERY_EVENT = "*"

# Seconds. Guards ask the user inside their handler: a question waits 300 s by default, and one
# without a limit should outlast a break. A handler that needs longer passes its own `timeout`.
DEFAULT_TIMEOUT = 3600.0

Handler: TypeAlias = Callable[[str, Any], Any]
OnError: TypeAlias = Literal["continue", "deny"]


@dataclass(frozen=True)
class HookTrace:
    """How one handler answered one emit.

    `action` is that of its answer: "continue" if it gave none or failed, "deny" if it is a guard
    that failed or if its answer was invalid. `error` describes a failure.
    """

    event: str
    handler: str
    action: str
    seconds: float
    error: str | None = None


@dataclass(eq=False)
class _Registration:
    """One handler of one event, or of every event."""

    owner: HookRegistry
    handler: Handler
    name: str
    timeout: float | None
    on_error: OnError
    # The priority, and for equal ones the order of registration.
    place: tuple[int, int]


_place = attrgetter("place")
_numbers = count()


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
        self._handlers: dict[str, list[_Registration]] = {}
        self._parents: list[HookRegistry] = []
        self._tracers: list[Callable[[HookTrace], object]] = []
        self._defaults: dict[str, Any] = {}
        self._names_given = 0

    def register(
        self,
        event: str,
        handler: Handler,
        priority: int = 0,
        name: str | None = None,
        *,
        timeout: float | None = DEFAULT_TIMEOUT,
        on_error: OnError = "continue",
    ) -> Callable[[], None]:
        """Call `handler` on every `event`; the returned function undoes this, once.

        `"*"` is every event. Lower `priority` runs earlier; equal priorities keep registration
        order. `timeout` is in seconds, an hour by default, and None is no limit. With
        `on_error="deny"` the handler is a guard: if it raises or times out, the answer is a
        denial, and child sessions inherit it.
        """
        if type(priority) is not int:
            raise TypeError(f"priority must be an int, not {type(priority).__name__}")
        if on_error not in ("continue", "deny"):
            raise ValueError(f"on_error must be 'continue' or 'deny', not {on_error!r}")
        if not name:
            self._names_given += 1
            name = f"{getattr(handler, '__name__', type(handler).__name__)}-{self._names_given}"
        place = (priority, next(_numbers))
        registration = _Registration(self, handler, name, timeout, on_error, place)
        self._handlers.setdefault(event, []).append(registration)

        def unregister() -> None:
            if registration in self._handlers[event]:
                self._handlers[event].remove(registration)

        return unregister

    on = register

    def unregister(self, name: str) -> None:
        """Remove every handler registered here under `name`; inherited guards stay."""
        for event, registrations in self._handlers.items():
            self._handlers[event] = [each for each in registrations if each.name != name]

    def list_handlers(self, event: str | None = None) -> dict[str, list[str]]:
        """Return the handlers' names in the order they run, by event.

        Handlers of every event are listed under `"*"`, and with each event that has others.
        """
        events = self._known_events() if event is None else [event]
        return {each: [handler.name for handler in self._hearing(each)] for each in events}

    def has_handlers(self, event: str) -> bool:
        """Whether any handler would receive `event`; saves preparing data that nobody uses."""
        if self._handlers.get(event) or self._handlers.get(EVERY_EVENT):
            return True
        for parent in self._parents:
            if any(each.on_error == "deny" for each in parent._hearing(event)):
                return True
        return False

    def list_guards(self) -> dict[str, list[str]]:
        """Return the names of the handlers that deny when they fail, by event."""
        guards: dict[str, list[str]] = {}
        for event in self._known_events():
            names = [each.name for each in self._hearing(event) if each.on_error == "deny"]
            if names:
                guards[event] = names
        return guards

    def describe(self) -> dict[str, list[dict[str, Any]]]:
        """Return the handlers of each event in the order they run, as plain data.

        `owner` is the id of the session that registered the handler: an inherited guard has that
        of an ancestor, and a registry without a session has None.
        """
        described: dict[str, list[dict[str, Any]]] = {}
        for event in self._known_events():
            for each in self._hearing(event):
                facts = {
                    "name": each.name,
                    "priority": each.place[0],
                    "guard": each.on_error == "deny",
                    "owner": each.owner._defaults.get("session_id"),
                }
                described.setdefault(event, []).append(facts)
        return described

    def set_default_fields(self, **fields: Any) -> None:
        """Add `fields` to the data of every event from now on; replaces earlier ones."""
        self._defaults = fields

    def inherit_guards(self, parent: HookRegistry) -> None:
        """Run the guards of `parent` here as well, those it has now and those it gets later.

        Only the parent can remove an inherited guard; `unregister` here has no effect on it.
        """
        self._parents.append(parent)

    def trace(self, callback: Callable[[HookTrace], object]) -> Callable[[], None]:
        """Call `callback` with every answer of a handler here; the returned function undoes this.

        A callback that raises is logged.
        """
        self._tracers.append(callback)

        def undo() -> None:
            if callback in self._tracers:
                self._tracers.remove(callback)

        return undo

    async def emit(self, event: str, data: Any) -> HookResult:
        """Call every handler of `event`, in order, and merge their answers.

        deny ends the emit immediately, and `denied_by` names the handler; otherwise the first
        ask_user wins, else all injections merged, else continue. An edit stays in `data` whatever
        the action, and user messages are kept too.
        """
        if event in CORRELATED_EVENTS:
            data = _correlated(event, data)
        if event in TOOL_CALL_EVENTS:
            follow_tool_call(event, data, self)
        hearing = self._hearing(event)
        if not hearing:
            result = HookResult(action="continue")
            mapping = as_dict(data)
            # Assigned, because validation would copy the caller's own dict.
            result.data = {} if mapping is None else mapping
            return result
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        payload = Payload(data, self._defaults, {"timestamp": now})
        answers: list[Answer] = []
        for registration in hearing:
            name = registration.name
            result = await self._ask(registration, event, payload.view(), registration.timeout)
            if result.action == "modify" and result.data is not None:
                try:
                    payload.replace(result.data)
                except Exception:
                    logger.exception("hook edit not usable event=%s by=%s", event, name)
                    result = HookResult(action="deny", reason=INVALID_ANSWER)
            if result.action == "deny":
                logger.info("hook denied event=%s handler=%s", event, name)
                return merge_denial(result, name, answers)
            answers.append((name, result))
        return merge_answers(answers, event, payload.current)

    async def emit_and_collect(
        self, event: str, data: Any, timeout: float | None = 1.0
    ) -> list[dict[str, Any]]:
        """Call every handler of `event` in turn and return the data that they returned.

        Actions are ignored. `timeout` is in seconds and per handler, None for no limit; a handler
        that fails or takes longer is logged and skipped.
        """
        collected: list[dict[str, Any]] = []
        payload = Payload(data)
        for registration in self._hearing(event):
            result = await self._ask(registration, event, payload.view(), timeout)
            if result.data is not None:
                collected.append(result.data)
        return collected

    def _hearing(self, event: str) -> list[_Registration]:
        """Return the handlers of `event` in the order they run: a new list, so a snapshot."""
        hearing = list(self._handlers.get(event, ()))
        if event != EVERY_EVENT:
            hearing += self._handlers.get(EVERY_EVENT, ())
        for parent in self._parents:
            hearing += [each for each in parent._hearing(event) if each.on_error == "deny"]
        hearing.sort(key=_place)
        return hearing

    def _known_events(self) -> list[str]:
        inherited = [event for parent in self._parents for event in parent.list_guards()]
        return list(dict.fromkeys([*self._handlers, *inherited]))

    async def _ask(
        self, registration: _Registration, event: str, view: Any, timeout: float | None
    ) -> HookResult:
        """Return the answer of one handler, which has `timeout` seconds for it."""
        started = time.perf_counter()
        error: BaseException | None = None
        try:
            answer = await limited(timeout, maybe_await(registration.handler(event, view)))
            result = parse_answer(answer, event, registration.name)
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - logged there
            error = raised
            result = await self._failed(registration, event, raised)
        if self._tracers:
            seconds = time.perf_counter() - started
            text = None if error is None else describe_error(error)
            trace = HookTrace(event, registration.name, result.action, seconds, text)
            for callback in list(self._tracers):
                try:
                    callback(trace)
                except Exception:
                    logger.exception("hook trace failed event=%s", event)
        return result

    async def _failed(
        self, registration: _Registration, event: str, error: BaseException
    ) -> HookResult:
        """Announce that a handler failed and return its answer: a guard's is a denial."""
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise error
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


def _correlated(event: str, data: Any) -> Any:
    """Return the data of a model call's event with the id of that call, if there is one."""
    mapping = as_dict(data)
    if mapping is None:
        return data
    request_id = resolve_request_id(event, mapping.get(REQUEST_ID_FIELD))
    return mapping if request_id is None else {**mapping, REQUEST_ID_FIELD: request_id}
