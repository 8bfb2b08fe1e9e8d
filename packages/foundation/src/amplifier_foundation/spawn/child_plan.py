"""The plan of a child: its parent's, overridden by the agent, overridden by the caller."""

from __future__ import annotations

import copy
from typing import Any, cast

from amplifier_foundation.config.modules import SESSION_PARTS, long_form, module_key
from amplifier_foundation.guards import is_guard, lay_hooks, with_required_guards
from amplifier_foundation.plan_shape import checked_plan
from amplifier_foundation.spawn.request import SpawnRequest, as_preferences
from amplifier_foundation.spawn_utils import (
    ProviderPreference,
    apply_provider_preferences_with_resolution,
)

__all__ = ["child_plan"]

Entry = dict[str, Any]


async def child_plan(
    parent: dict[str, Any], agent: dict[str, Any], request: SpawnRequest, coordinator: Any
) -> dict[str, Any]:
    """Return the plan of a child that `coordinator`'s session starts.

    Neither the agent nor the caller can leave out a guard of the parent.

    Raises:
        GuardError, PlanError: the agent would replace a guard, or the plan is malformed.
        ValueError: a preference does not name a provider or a model.
    """
    where = f"agent {request.agent_name}"
    hooks = lay_hooks(parent.get("hooks") or [], agent.get("hooks") or [], where)
    own_hooks = _modules(agent, "hooks")
    plan: dict[str, Any] = {
        **parent,
        "session": _session(parent, agent, request),
        "providers": _merged(parent.get("providers") or [], agent.get("providers") or []),
        "tools": _tools(parent, agent, request.tool_inheritance),
        "hooks": _inherited(hooks, request.hook_inheritance, "hooks", own_hooks),
        "agents": _agents(parent, agent),
    }
    preferred = request.provider_preferences or as_preferences(agent.get("provider_preferences"))
    preferences = [ProviderPreference.from_dict(each) for each in preferred]
    plan = await apply_provider_preferences_with_resolution(plan, preferences, coordinator)
    # Copied, because modules may modify their configuration, and the parent's must not change.
    return with_required_guards(checked_plan(copy.deepcopy(plan)))


def _session(
    parent: dict[str, Any], agent: dict[str, Any], request: SpawnRequest
) -> dict[str, Any]:
    own = long_form(agent.get("session") or {})
    session = long_form(parent["session"])
    for key, value in own.items():
        session[key] = _part(session.get(key), value) if key in SESSION_PARTS else value
    inherited = _loop_config(parent, parent["session"])
    # Some tools only pass the parent's configuration on; an agent's other loop must not get it.
    if request.orchestrator_config and request.orchestrator_config != inherited:
        config = {**_loop_config(parent, session), **request.orchestrator_config}
        session["orchestrator"] = {**session["orchestrator"], "config": config}
    if request.session_metadata:
        session["metadata"] = request.session_metadata
    return session


def _part(below: Any, above: Any) -> Any:
    """Return two entries of a loop or a memory merged; another module replaces the earlier one."""
    if isinstance(below, dict) and isinstance(above, dict):
        earlier = cast("Entry", below)
        later = cast("Entry", above)
        if later.get("module", earlier.get("module")) == earlier.get("module"):
            return _over(earlier, later)
    return cast("Any", above)


def _loop_config(plan: dict[str, Any], session: dict[str, Any]) -> dict[str, Any]:
    loop: Any = session["orchestrator"]
    section: Any = plan.get("orchestrator")
    for entry in (loop, section):
        if isinstance(entry, dict) and cast("Entry", entry).get("config"):
            return cast("Entry", entry)["config"]
    return {}


def _tools(
    parent: dict[str, Any], agent: dict[str, Any], inheritance: dict[str, list[str]]
) -> list[Entry]:
    """Return the agent's tools, or without any the parent's that are inherited.

    The tools of a compiled agent include those of its bundle; `own_tools` names its own.
    """
    own: list[Entry] | None = agent.get("tools")
    if own is None:
        return _inherited(parent.get("tools") or [], inheritance, "tools", [])
    declared: list[str] | None = agent.get("own_tools")
    if declared is None:
        explicit = _modules(agent, "tools")
    else:
        explicit = declared
    return _inherited(own, inheritance, "tools", explicit)


def _inherited(
    entries: list[Entry], inheritance: dict[str, list[str]], kind: str, explicit: list[str]
) -> list[Entry]:
    """Return the entries that a child inherits: all but those excluded, or only those named.

    Guards, and what the agent names itself, are never left out.
    """
    only: list[str] | None = inheritance.get(f"inherit_{kind}")
    excluded: list[str] = inheritance.get(f"exclude_{kind}") or []
    kept: list[Entry] = []
    for entry in entries:
        module = entry.get("module")
        if only is None:
            is_wanted = module not in excluded
        else:
            is_wanted = module in only
        if is_wanted or module in explicit or (kind == "hooks" and is_guard(entry)):
            kept.append(entry)
    return kept


def _agents(parent: dict[str, Any], agent: dict[str, Any]) -> dict[str, Any]:
    """Return the agents that an agent may delegate to: all, none, or those that it names."""
    known: dict[str, Any] = parent.get("agents") or {}
    wanted: Any = agent.get("agents")
    if wanted == "none":
        return {}
    if isinstance(wanted, list):
        return {name: each for name, each in known.items() if name in wanted}
    return known


def _modules(agent: dict[str, Any], section: str) -> list[str]:
    entries: list[Entry] = agent.get(section) or []
    return [str(each.get("module")) for each in entries]


def _merged(below: list[Entry], above: list[Entry]) -> list[Entry]:
    """Return the modules of both lists; of one that is in both, the later configuration wins."""
    merged = {module_key(each): each for each in below}
    for entry in above:
        key = module_key(entry)
        merged[key] = _over(merged.get(key, {}), entry)
    return list(merged.values())


def _over(below: Entry, above: Entry) -> Entry:
    """Merge two dicts; everything but nested dicts is replaced by the later value.

    Lists too, unlike in bundles: an agent that lists what it may use must not get more.
    """
    laid = dict(below)
    for key, value in above.items():
        earlier = laid.get(key)
        if isinstance(earlier, dict) and isinstance(value, dict):
            laid[key] = _over(cast("Entry", earlier), cast("Entry", value))
        else:
            laid[key] = value
    return laid
