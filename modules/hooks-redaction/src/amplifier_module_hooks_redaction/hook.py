"""The handler of every event: it runs first, and passes on what other hooks may see."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextvars import ContextVar
from typing import Any, cast

from pydantic import ValidationError

from amplifier_core import events
from amplifier_core.models import HookResult, ToolResult
from amplifier_kit.notices import show
from amplifier_kit.secrets.log_records import scrub_log_records
from amplifier_kit.secrets.scrubber import MARK_START, EventStreams, Scrubber
from amplifier_kit.secrets.watch import Watch
from amplifier_module_hooks_redaction.config import RedactionConfig

logger = logging.getLogger(__name__)

NAME = "hooks-redaction"
REFUSED = "redaction:refused"
FAILED = "redaction:failed"
EVENTS = [REFUSED, FAILED]

# Before all others: a hook that runs earlier sees the secrets.
_FIRST = -1_000_000
# Searching more text than this would noticeably block the event loop.
_LONGEST_IN_LOOP = 100_000
# A search that takes longer counts as failed, and its event is denied.
_LONGEST_SEARCH_SECONDS = 30.0
# Events about a call that has yet to run; event-driven loops emit `tool:selecting` first.
_TOOL_CALLS = frozenset({events.TOOL_PRE, "tool:selecting"})
# Events whose answer the loop acts on; withholding their data would not stop it, denying does.
_ASKED = _TOOL_CALLS | {events.PROMPT_SUBMIT, events.TOOL_POST, events.PROVIDER_REQUEST}
_WHAT_CHANGED = {
    events.PROMPT_SUBMIT: "the prompt, before the model read it",
    events.TOOL_POST: "a tool's result, before the model read it",
}
_ENVELOPE = ("session_id", "parent_id", "timestamp")
_ADVICE = (
    "Refer to the secret by the name of its environment variable or file, and leave its value out."
)
_LOST_ADVICE = (
    "A [REDACTED:...] marker stands for text that was hidden from you; writing it would destroy "
    "the original. Change only the parts around it."
)

# What this module itself emits at the moment, which is free of secrets. A context variable, because
# other events are emitted by concurrent tasks meanwhile.
_own: ContextVar[dict[str, Any] | None] = ContextVar("amplifier_redaction", default=None)


class Redaction:
    """Blanks the secrets of one session's events and of its children's, and those in the log."""

    def __init__(self, coordinator: Any, config: RedactionConfig) -> None:
        self._coordinator = coordinator
        self._config = config
        self._scrubber = Scrubber()
        self._certain = Scrubber(guesses=False)
        self._streams = EventStreams(self._scrubber)
        self._reported: set[str] = set()
        # A guard, so that child sessions inherit it, and a failure stops the event.
        self.watch = Watch(
            coordinator,
            self,
            (self._scrubber, self._certain),
            name=NAME,
            priority=_FIRST,
            on_error="deny",
            timeout=_LONGEST_SEARCH_SECONDS,
        )
        self._let_log_go = scrub_log_records(self._scrubber)

    def stop(self) -> None:
        """Stop listening."""
        self.watch.stop()
        self._let_log_go()

    def blank(self, text: str) -> str:
        """Return a text without its secrets, such as a message for the user."""
        try:
            return self._scrubber.scrub_text(text)[0]
        except Exception as error:
            logger.exception("text not searched for secrets")
            return (
                f"This could not be searched for secrets ({type(error).__name__}): it is withheld."
            )

    async def __call__(self, event: str, data: Any) -> HookResult | None:
        """Return the data that others may see; None if that is all of it."""
        if _is_own(data):
            return None
        try:
            return await self._answer(event, data)
        except Exception as error:
            # Handled here, so that observers still see that the event happened, without its data.
            logger.exception("redaction failed event=%s", event)
            return await self._withhold(event, data, type(error).__name__)

    async def _answer(self, event: str, data: Any) -> HookResult | None:
        await self.watch.keep_up(event)
        is_mapping = isinstance(data, dict)
        if is_mapping:
            fields = cast("dict[str, Any]", data)
        else:
            fields = {"data": data}
        if event in _TOOL_CALLS:
            return await self._judge(fields)
        seen = fields
        # A child's streams are assembled by the child's own module: this one could not emit in
        # the child what it holds back.
        if fields.get("session_id") == self._coordinator.session_id:
            await self._release(event, fields)
            seen = self._streams.feed(event, fields)
        clean, found = await _scrub(self._scrubber, seen)
        if not found and seen is fields:
            return None
        if event == events.TOOL_POST:
            clean = {key: _restored(value) for key, value in clean.items()}
        return HookResult(action="modify", data=clean, **_told(event, found))

    async def _judge(self, fields: dict[str, Any]) -> HookResult | None:
        """Refuse a tool call with a secret in it, or with the marker of a blanked one.

        It is never changed: a command with a blank in it does something that nobody asked for.
        """
        if self._config.secrets_in_tool_input == "pass":
            return None
        # Without guesses: text that only looks like a secret must not stop a call.
        clean, found = await _scrub(self._certain, fields)
        if not found and MARK_START not in str(fields.get("tool_input")):
            return None
        if found:
            held = f"a secret ({', '.join(found)})"
        else:
            held = "a marker in place of a secret"
        reason = f"The input holds {held}. {_ADVICE if found else _LOST_ADVICE}"
        line = f"A call of `{clean.get('tool_name')}` was refused: its input holds {held}."
        named = (*_ENVELOPE, "tool_name", "tool_call_id")
        facts = {key: clean[key] for key in named if key in clean}
        await self._announce(REFUSED, {**facts, "kinds": dict(found)})
        return HookResult(
            action="deny",
            reason=reason,
            user_message=line,
            user_message_level="warning",
            user_message_source=NAME,
        )

    async def _release(self, event: str, fields: dict[str, Any]) -> None:
        """Emit what was held back of the streams that end here."""
        for name, rest in self._streams.end(event, fields):
            clean, _ = await _scrub(self._scrubber, rest)
            await self._announce(name, clean)

    async def _announce(self, event: str, facts: dict[str, Any]) -> None:
        token = _own.set(_without_envelope(facts))
        try:
            await self._coordinator.hooks.emit(event, facts)
        finally:
            _own.reset(token)

    async def _withhold(self, event: str, data: Any, error: str) -> HookResult:
        """Return a result that hides the data of an event that could not be searched."""
        await self._announce(FAILED, {"event": event, "error": error})
        if event not in self._reported:
            self._reported.add(event)
            line = f"Secrets could not be searched for in `{event}` ({error}): it is withheld."
            show(self._coordinator, line, "error", source=NAME)
        if event in _ASKED:
            return HookResult(action="deny", reason=f"Redaction failed: {error}")
        if isinstance(data, dict):
            fields = cast("dict[str, Any]", data)
        else:
            fields = {}
        kept = {key: fields[key] for key in _ENVELOPE if key in fields}
        return HookResult(action="modify", data={**kept, "withheld": f"redaction failed: {error}"})


def _is_own(data: Any) -> bool:
    """Whether this is what the module emits, and not what a listener emits in response."""
    own = _own.get()
    return (
        own is not None
        and isinstance(data, dict)
        and _without_envelope(cast("dict[str, Any]", data)) == own
    )


def _without_envelope(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without those that the hook registry adds."""
    return {key: value for key, value in fields.items() if key not in _ENVELOPE}


async def _scrub(scrubber: Scrubber, fields: dict[str, Any]) -> tuple[dict[str, Any], Counter[str]]:
    """Scrub in the event loop, or in a thread if there is much to search."""
    if _size(fields) > _LONGEST_IN_LOOP:
        return await asyncio.to_thread(scrubber.scrub, fields)
    return scrubber.scrub(fields)


def _size(data: Any) -> int:
    """Return roughly the number of characters; counting stops above the limit."""
    total = 0
    waiting = [data]
    while waiting and total <= _LONGEST_IN_LOOP:
        value: Any = waiting.pop()
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, dict):
            waiting += cast("dict[str, Any]", value).values()
        elif isinstance(value, list):
            waiting += cast("list[Any]", value)
        total += 1
    return total


def _restored(value: Any) -> Any:
    """Return a tool result from the data that hooks see of it; images are lost."""
    if not isinstance(value, dict) or "success" not in value:
        return cast("Any", value)
    try:
        return ToolResult.model_validate(value)
    except ValidationError:
        return cast("Any", value)


def _told(event: str, found: Counter[str]) -> dict[str, Any]:
    """Return a message for the user if the model will read something other than the original."""
    if not found or event not in _WHAT_CHANGED:
        return {}
    line = f"Blanked in {_WHAT_CHANGED[event]}: {', '.join(found)}."
    return {"user_message": line, "user_message_level": "info", "user_message_source": NAME}
