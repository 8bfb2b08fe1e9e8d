"""The agents that a mount plan names, and how the plan of each differs from its parent's."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from amplifier_kit.children.orders import ChildOrder


def agents_in(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the agents by name; raises ValidationError for one that is no mapping."""
    return TypeAdapter(dict[str, dict[str, Any]]).validate_python(plan.get("agents") or {})


def instruction_of(agent: dict[str, Any]) -> str:
    """Return what an agent is told before its first prompt, or nothing."""
    system: dict[str, Any] = agent.get("system") or {}
    return agent.get("instruction") or system.get("instruction") or ""


def overlay_of(agent: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Return what to lay over `plan`: hooks are added, the rest is merged as forks do."""
    hooks: list[dict[str, Any]] = agent.get("hooks") or []
    own = {entry.get("module") for entry in hooks}
    kept = [each for each in plan.get("hooks") or () if each.get("module") not in own]
    sections = ("session", "providers", "tools")
    rest = {key: agent[key] for key in sections if agent.get(key) is not None}
    return {**rest, "hooks": [*kept, *hooks]}


def order_for(
    agent: str,
    prompt: str,
    seconds: float,
    plan: dict[str, Any],
    *,
    background: bool = False,
    key: str = "",
) -> ChildOrder:
    """Return the order for an agent of a plan; a name that it does not have is a child like it."""
    chosen = agents_in(plan).get(agent, {})
    return ChildOrder(
        prompt,
        seconds,
        agent,
        background,
        overlay=overlay_of(chosen, plan),
        instruction=instruction_of(chosen),
        key=key,
    )
