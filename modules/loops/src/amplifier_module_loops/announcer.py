"""Announces events of a turn, collects what hooks inject, and queues steering by the user."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

from amplifier_core.message_models import Message, TextBlock
from amplifier_core.models import ContextInjection, HookResult
from amplifier_kit.valid_text import valid_text

logger = logging.getLogger(__name__)

_NO_ANSWER = HookResult()


class Injections:
    """The ephemeral injections collected since the last request."""

    def __init__(self) -> None:
        self._waiting: tuple[ContextInjection, ...] = ()

    def take(self, result: HookResult) -> None:
        """Keep the injections of a processed hook result for the next request."""
        if result.context_injections:
            self._waiting += tuple(result.context_injections)
        elif result.context_injection:
            self._waiting += (
                ContextInjection(
                    content=result.context_injection,
                    role=result.context_injection_role,
                    append_to_last_tool_result=result.append_to_last_tool_result,
                ),
            )

    def add(self, text: str) -> None:
        """Keep a text of the loop itself for the next request."""
        self._waiting += (ContextInjection(content=text, role="user"),)

    def apply(self, messages: list[Message]) -> None:
        """Append all pending injections to `messages`."""
        for injection in self._waiting:
            last = messages[-1] if messages else None
            if injection.append_to_last_tool_result and last is not None and last.role == "tool":
                # A copy: the message belongs to the history, and injections are never stored.
                messages[-1] = _extended(last, injection.content)
            else:
                messages.append(Message(role=injection.role, content=injection.content))

    def clear(self) -> None:
        """Drop the injections, once they were sent."""
        self._waiting = ()


def _extended(message: Message, text: str) -> Message:
    if isinstance(message.content, str):
        return message.model_copy(update={"content": f"{message.content}\n\n{text}"})
    return message.model_copy(update={"content": [*message.content, TextBlock(text=text)]})


class Announcer:
    """Emits events for a loop and carries out the answers of hooks; `name` is the loop's."""

    def __init__(self, name: str, hooks: Any, coordinator: Any) -> None:
        self.name = name
        self._coordinator = coordinator
        self._hooks = hooks
        self._has_handlers = getattr(hooks, "has_handlers", None)
        # Pending injections for the next request.
        self.injections = Injections()

    def hears(self, event: str) -> bool:
        """Whether a hook listens to an event; True if the hooks object cannot tell."""
        return self._has_handlers is None or self._has_handlers(event)

    async def tell(self, event: str, data: dict[str, Any]) -> dict[str, Any]:
        """Announce something that cannot be denied; returns its data as edited by hooks."""
        if not self.hears(event):
            return data
        answer = await self._hooks.emit(event, data)
        # It has happened, so that a denial can only withhold its data.
        if answer.action == "deny":
            return {}
        if answer.data is None:
            return data
        return answer.data

    async def ask(self, event: str, data: dict[str, Any]) -> HookResult:
        """Announce, carry out the hooks' answer, and return what the caller has to act on."""
        if not self.hears(event):
            return _NO_ANSWER
        return await self.carry_out(event, await self._hooks.emit(event, data))

    async def carry_out(self, event: str, wanted: HookResult) -> HookResult:
        """Carry out a hook result; without a coordinator, every question is denied."""
        result = wanted
        if self._coordinator is not None:
            result = await self._coordinator.process_hook_result(wanted, event, self.name)
        elif wanted.action == "ask_user":
            return HookResult(action="deny", reason="No approval system available")
        if result.action == "inject_context":
            self.injections.take(result)
        return result

    async def warn(self, event: str, data: dict[str, Any], line: str) -> None:
        """Announce a deviation from what was asked for, and show it to the user."""
        await self.tell(event, data)
        if getattr(self._coordinator, "display_system", None) is None:
            logger.warning("%s: %s", self.name, line)
            return
        shown = HookResult(
            user_message=line, user_message_level="warning", user_message_source=self.name
        )
        await self._coordinator.process_hook_result(shown, event, self.name)


class Inbox:
    """A queue of steering texts; each is stored exactly once, in the order they arrive."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._storing: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> None:
        """Queue `text` for the next step, without waiting. Blank text is ignored."""
        if text.strip():
            self._texts.append(valid_text(text))

    async def deliver(self, context: Any) -> str | None:
        """Store the oldest text as a message of the user and return it; None if there is none.

        Storing is not cancelled together with the caller, because it would be unknown whether it
        took effect. The next delivery starts with the outcome of this one.
        """
        if not self._texts:
            return None
        storing = self._storing
        if storing is None:
            message = {"role": "user", "content": self._texts[0]}
            storing = self._storing = asyncio.ensure_future(_stored(context, message))
        try:
            await asyncio.shield(storing)
        finally:
            if storing.done():
                self._storing = None
        return self._texts.popleft()


async def _stored(context: Any, message: dict[str, Any]) -> None:
    await context.add_message(message)
