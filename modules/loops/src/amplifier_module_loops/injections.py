"""What hooks want the model to read once: added to the next request and never stored."""

from __future__ import annotations

from amplifier_core.message_models import Message, TextBlock
from amplifier_core.models import ContextInjection, HookResult


class Injections:
    """The ephemeral injections collected since the last request."""

    __slots__ = ("_waiting",)

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
