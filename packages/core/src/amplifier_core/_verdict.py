"""How the answers of several hook handlers become one result."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from amplifier_core.models import ContextInjection, HookResult, UserMessage

logger = logging.getLogger(__name__)

INVALID_ANSWER = "Hook handler returned invalid response"


def parse_answer(answer: Any, event: str, handler_name: str) -> HookResult:
    """Return `answer` as a HookResult; None is a continue, and anything else denies.

    A handler whose answer cannot be read may have meant to object, so the safe reading is no.
    """
    if answer is None:
        return HookResult(action="continue")
    if isinstance(answer, HookResult):
        return answer
    if isinstance(answer, dict):
        try:
            return HookResult.model_validate(answer)
        except ValidationError:
            logger.exception("hook answer not valid event=%s handler=%s", event, handler_name)
            return HookResult(action="deny", reason=INVALID_ANSWER)
    logger.error(
        "hook answer not understood event=%s handler=%s type=%s",
        event,
        handler_name,
        type(answer).__name__,
    )
    return HookResult(action="deny", reason=INVALID_ANSWER)


class Verdict:
    """What the handlers of one emit have said so far."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._asked: HookResult | None = None
        self._injecting: list[HookResult] = []
        self._injections: list[ContextInjection] = []
        # With the result each came from: its own stays where its handler put it.
        self._messages: list[tuple[HookResult | None, UserMessage]] = []
        self._suppress_output = False

    def add(self, result: HookResult, handler_name: str) -> None:
        """Take an answer into account that is not a denial."""
        self._suppress_output = self._suppress_output or result.suppress_output
        if result.action == "ask_user" and self._asked is None:
            self._asked = result
        elif result.action == "inject_context":
            injections = result.injections(handler_name, self._event)
            if injections:
                self._injecting.append(result)
            # Marked with where each really came from, whatever its handler says.
            origin = {"hook_name": handler_name, "event": self._event}
            self._injections += [each.model_copy(update=origin) for each in injections]
        if result.user_message:
            self._messages.append((result, result.messages(handler_name)[0]))
        # A handler that emits in turn passes on the messages it received.
        self._messages += [(None, message) for message in result.user_messages]

    def denial(self, denial: HookResult, handler_name: str) -> HookResult:
        """Return `denial` with the name of its handler and the messages of those before it."""
        earlier = [message for _, message in self._messages]
        update = {
            "denied_by": handler_name,
            "user_messages": [*earlier, *denial.user_messages],
        }
        return denial.model_copy(update=update)

    def result(self, data: dict[str, Any]) -> HookResult:
        """Return what the answers add up to when no one denied."""
        base = self._asked
        if base is None and len(self._injecting) == 1:
            base = self._injecting[0]
        if base is None:
            result = self._merged()
        else:
            result = base.model_copy()
            result.user_messages = [each for owner, each in self._messages if owner is not base]
        # Only a modification changes the data, so what an answer of another kind put there is not
        # taken over; nor are injections that came with a question.
        result.data = data
        result.suppress_output = self._suppress_output
        result.context_injections = self._injections
        return result

    def _merged(self) -> HookResult:
        """Return a result that belongs to no handler, with every injection and message."""
        result = HookResult(action="continue")
        if self._injections:
            result = result.with_injections(self._injections)
        if self._messages:
            first, *others = [message for _, message in self._messages]
            result.user_message = first.text
            result.user_message_level = first.level
            result.user_message_source = first.source
            result.user_messages = others
        return result
