"""The order for a child session, before the session exists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ChildOrder", "instruction_of"]


@dataclass(frozen=True)
class ChildOrder:
    """A child session to start.

    Its plan is `plan`, or that of its parent with `overlay` over it. Its memory has `instruction`
    and then `history` before the prompt. `session_id` has to be unused, unless the child
    `is_resumed`: then it has been a child of the same session before, and `state` is what its
    modules kept.

    `told_depth` is the depth that is reported to the child's modules; `about` is plain data that is
    kept with the session. `key` distinguishes the children that one call starts, for a runner that
    finds them again.
    """

    prompt: str
    seconds: float
    agent: str = ""
    background: bool = False
    overlay: dict[str, Any] = field(default_factory=dict[str, Any])
    plan: dict[str, Any] | None = None
    instruction: str = ""
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    session_id: str | None = None
    is_resumed: bool = False
    told_depth: int | None = None
    about: dict[str, Any] | None = None
    key: str = ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What the memory of the child has before the prompt."""
        if self.instruction:
            first = [{"role": "system", "content": self.instruction}]
        else:
            first = []
        return [*first, *self.history]


def instruction_of(agent: dict[str, Any]) -> str:
    """Return the instruction of an agent, or an empty text."""
    system: dict[str, Any] = agent.get("system") or {}
    return agent.get("instruction") or system.get("instruction") or ""
