"""What a turn announces, what hooks inject into it, and what a user says while it runs."""

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
        """Keep what a processed hook result leaves for the next request."""
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
        """Keep a sentence of the loop's own for the next request."""
        self._waiting += (ContextInjection(content=text, role="user"),)

    def apply(self, messages: list[Message]) -> None:
        """Put everything that waits behind `messages`."""
        for injection in self._waiting:
            last = messages[-1] if messages else None
            if injection.append_to_last_tool_result and last is not None and last.role == "tool":
                messages[-1] = _extended(last, injection.content)
            else:
                messages.append(Message(role=injection.role, content=injection.content))

    def clear(self) -> None:
        """Let go of what was sent."""
        self._waiting = ()


def _extended(message: Message, text: str) -> Message:
    if isinstance(message.content, str):
        return message.model_copy(update={"content": f"{message.content}\n\n{text}"})
    return message.model_copy(update={"content": [*message.content, TextBlock(text=text)]})


class Announcer:
    """The way from a loop to the hooks and back; `name` is the loop's."""

    def __init__(self, name: str, hooks: Any, coordinator: Any) -> None:
        self.name = name
        self._coordinator = coordinator
        self._hooks = hooks
        self._has_handlers = getattr(hooks, "has_handlers", None)
        # What waits for the next request.
        self.injections = Injections()

    def hears(self, event: str) -> bool:
        """Whether a hook listens to an event; assumed of hooks that cannot say so."""
        return self._has_handlers is None or self._has_handlers(event)

    async def tell(self, event: str, data: dict[str, Any]) -> dict[str, Any]:
        """Announce something that is not open to objection; returns what the hooks leave of it."""
        if not self.hears(event):
            return data
        answer = await self._hooks.emit(event, data)
        if answer.action == "deny":
            return {}
        if answer.data is None:
            return data
        return answer.data

    async def ask(self, event: str, data: dict[str, Any]) -> HookResult:
        """Announce, have the hooks' wishes carried out, and return what is left to act on."""
        if not self.hears(event):
            return _NO_ANSWER
        return await self.carry_out(event, await self._hooks.emit(event, data))

    async def carry_out(self, event: str, wanted: HookResult) -> HookResult:
        """Do what `wanted` asks for; without a coordinator every question is answered with no."""
        result = wanted
        if self._coordinator is not None:
            result = await self._coordinator.process_hook_result(wanted, event, self.name)
        elif wanted.action == "ask_user":
            return HookResult(action="deny", reason="No approval system available")
        if result.action == "inject_context":
            self.injections.take(result)
        return result

    async def warn(self, event: str, data: dict[str, Any], line: str) -> None:
        """Announce something that went another way than was asked, and show it to the user."""
        await self.tell(event, data)
        if getattr(self._coordinator, "display_system", None) is None:
            logger.warning("%s: %s", self.name, line)
            return
        shown = HookResult(
            user_message=line, user_message_level="warning", user_message_source=self.name
        )
        await self._coordinator.process_hook_result(shown, event, self.name)


class Inbox:
    """Keeps texts in the order they arrive, until each is stored: never lost, never twice."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._storing: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> None:
        """Keep `text` for the next step; returns at once. Blank text is not kept."""
        if text.strip():
            self._texts.append(valid_text(text))

    async def deliver(self, context: Any) -> str | None:
        """Store the oldest text as a message of the user and return it; None when none waits.

        Storing is not cancelled together with the caller, for nobody could tell then whether it
        happened; the next delivery begins with the outcome of this one.
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
