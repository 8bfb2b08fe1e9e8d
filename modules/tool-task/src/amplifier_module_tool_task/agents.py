"""The agents of a mount plan, and the orders for children made from them."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_kit.children.orders import ChildOrder, instruction_of

__all__ = ["Agents"]


class Agents:
    """The agents of one session; raises ValidationError if one is not a mapping."""

    def __init__(self, coordinator: ModuleCoordinator) -> None:
        self._coordinator = coordinator
        agents: Any = coordinator.config.get("agents") or {}
        self.by_name = TypeAdapter(dict[str, dict[str, Any]]).validate_python(agents)

    def refusal(self, agent: str) -> str | None:
        """Return why there is no agent of this name; None if there is one, or for no name."""
        if not agent or agent in self.by_name:
            return None
        return f"There is no agent `{agent[:100]}`. Known: {', '.join(self.by_name) or 'none'}."

    def order(
        self, agent: str, prompt: str, seconds: float, *, background: bool = False, key: str = ""
    ) -> ChildOrder:
        """Return the order for an agent; without a known agent, for a child like its parent."""
        chosen = self.by_name.get(agent, {})
        return ChildOrder(
            prompt,
            seconds,
            agent,
            background,
            overlay=_overlay(chosen, self._coordinator.config),
            instruction=instruction_of(chosen),
            key=key,
        )


def _overlay(agent: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Return the overlay for `plan`: hooks are added to the parent's, the rest is merged."""
    hooks: list[dict[str, Any]] = agent.get("hooks") or []
    own = {entry.get("module") for entry in hooks}
    kept = [each for each in plan.get("hooks") or () if each.get("module") not in own]
    sections = ("session", "providers", "tools")
    rest = {key: agent[key] for key in sections if agent.get(key) is not None}
    # An agent can have agents of its own; a bundle's `all`, `none` or names choose its parent's.
    if isinstance(agent.get("agents"), dict):
        rest["agents"] = agent["agents"]
    return {**rest, "hooks": [*kept, *hooks]}
