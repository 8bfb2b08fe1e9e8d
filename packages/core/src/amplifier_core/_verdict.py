"""How the answers of several hook handlers become one result."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from amplifier_core._isolation import Payload
from amplifier_core.models import ContextInjection, HookResult, UserMessage

logger = logging.getLogger(__name__)

INVALID_ANSWER = "Hook handler returned invalid response"


def parse_answer(answer: Any, event: str, handler_name: str) -> HookResult:
    """Return `answer` as a HookResult; what is none, is a denial.

    A handler whose answer cannot be read may have meant to object, so the safe reading is no.
    """
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
    """What the handlers of one emit have said so far, beyond a plain continue."""

    __slots__ = ("_asked", "_event", "_injecting", "_injections", "_messages", "_suppress")

    def __init__(self, event: str) -> None:
        self._event = event
        self._asked: HookResult | None = None
        self._injecting: list[HookResult] = []
        self._injections: list[ContextInjection] = []
        # With the result each came from: its own stays where its handler put it.
        self._messages: list[tuple[HookResult | None, UserMessage]] = []
        self._suppress = False

    def take(self, answer: Any, handler_name: str, payload: Payload) -> HookResult | None:
        """Take a handler's answer into account; returns the round's result when it ends here."""
        result = parse_answer(answer, self._event, handler_name)
        if result.action == "deny":
            return self._denial(result)
        if result.action == "modify" and result.data is not None:
            try:
                payload.replace(result.data)
            except Exception:
                logger.exception("hook edit not usable event=%s by=%s", self._event, handler_name)
                return self._denial(HookResult(action="deny", reason=INVALID_ANSWER))
        self._add(result, handler_name)
        return None

    def _add(self, result: HookResult, handler_name: str) -> None:
        self._suppress = self._suppress or result.suppress_output
        if result.action == "ask_user" and self._asked is None:
            self._asked = result
        elif result.action == "inject_context":
            injections = self._stamped(result, handler_name)
            self._injections += injections
            if injections:
                self._injecting.append(result)
        if result.user_message:
            message = UserMessage(
                text=result.user_message,
                level=result.user_message_level,
                source=result.user_message_source or handler_name,
            )
            self._messages.append((result, message))
        # A handler that emits in turn hands on what it was told.
        self._messages += [(None, message) for message in result.user_messages]

    def _denial(self, denial: HookResult) -> HookResult:
        """Return `denial` as its handler gave it, and with it what others told the user before."""
        if not self._messages:
            return denial
        told = [message for _, message in self._messages]
        return denial.model_copy(update={"user_messages": [*told, *denial.user_messages]})

    def result(self, payload: Payload) -> HookResult:
        """Return what the answers add up to when no one denied."""
        base = self._asked or (self._injecting[0] if len(self._injecting) == 1 else None)
        # Only a modification changes the data, so what an answer of another kind put there is not
        # taken over; nor are injections that came with a question.
        update: dict[str, Any] = {
            "data": payload.current,
            "suppress_output": self._suppress,
            "context_injections": self._injections,
        }
        messages = [
            message for owner, message in self._messages if base is None or owner is not base
        ]
        if base is None:
            update |= self._joined_injections() | _scalars(messages[:1])
            messages = messages[1:]
        update["user_messages"] = messages
        return (base or HookResult()).model_copy(update=update)

    def _stamped(self, result: HookResult, handler_name: str) -> list[ContextInjection]:
        """Return the result's injections, each marked with where it really came from."""
        origin = {"hook_name": handler_name, "event": self._event}
        if result.context_injections:
            return [each.model_copy(update=origin) for each in result.context_injections]
        if result.context_injection is None:
            return []
        return [
            ContextInjection(
                content=result.context_injection,
                role=result.context_injection_role,
                ephemeral=result.ephemeral,
                append_to_last_tool_result=result.append_to_last_tool_result,
                **origin,
            )
        ]

    def _joined_injections(self) -> dict[str, Any]:
        return injection_scalars(self._injections) if self._injections else {}


def injection_scalars(injections: list[ContextInjection]) -> dict[str, Any]:
    """Return the fields by which readers of a single injection see several."""
    return {
        "action": "inject_context",
        "context_injection": "\n\n".join(each.content for each in injections),
        "context_injection_role": injections[0].role,
        "ephemeral": any(each.ephemeral for each in injections),
        "append_to_last_tool_result": any(e.append_to_last_tool_result for e in injections),
    }


def _scalars(messages: list[UserMessage]) -> dict[str, Any]:
    return {
        key: value
        for message in messages
        for key, value in (
            ("user_message", message.text),
            ("user_message_level", message.level),
            ("user_message_source", message.source),
        )
    }
