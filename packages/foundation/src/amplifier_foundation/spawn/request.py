"""A request to `session.spawn`, as plain data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from amplifier_foundation.spawn_utils import ProviderPreference

__all__ = ["SpawnRequest", "as_preferences", "find_agent"]

# The agent with the same configuration as its parent.
_SELF = "self"


class SpawnRequest(BaseModel, frozen=True, defer_build=True):
    """How a child differs from its parent; it is kept with the child, to resume it."""

    agent_name: str
    tool_inheritance: dict[str, list[str]] = {}
    hook_inheritance: dict[str, list[str]] = {}
    orchestrator_config: dict[str, Any] = {}
    provider_preferences: list[dict[str, Any]] = []
    session_metadata: dict[str, Any] = {}
    self_delegation_depth: int = 0
    # The configuration of an agent that the parent's plan does not have.
    agent: dict[str, Any] | None = None

    def key(self, instruction: str, messages: list[dict[str, Any]]) -> str:
        """Return a key for this request that is the same in every run of the calling code.

        The metadata is not part of it, because tools put values there that differ in each run. Nor
        is the agent's configuration: turns that were begun before it was stored find their keys.
        """
        asked = self.model_dump(mode="json", exclude={"session_metadata", "agent"})
        text = json.dumps([asked, instruction, messages], sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def as_preferences(given: Iterable[Any] | None) -> list[dict[str, Any]]:
    """Return preferences, which come as objects or as plain data, as plain data.

    Raises:
        ValueError: one does not name a provider or a model.
    """
    plain: list[dict[str, Any]] = []
    for each in given or ():
        if isinstance(each, Mapping):
            fields = dict(cast("Mapping[str, Any]", each))
        else:
            # Any class with these names: a module may bring one of its own.
            fields = {name: getattr(each, name, None) for name in ("provider", "model", "config")}
        wish = ProviderPreference.from_dict({**fields, "config": fields.get("config") or {}})
        # A recipe whose pattern matches no model has None here; "" means the provider's own model.
        wish.model = wish.model or ""
        plain.append(wish.to_dict())
    return plain


def find_agent(name: str, agents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of an agent; that of `self` is empty, so it equals its parent.

    `bundle:agents/name` means the agent `bundle:name`, which is how bundles name their files.

    Raises:
        ValueError: there is no such agent.
    """
    if name == _SELF:
        return {}
    namespace, colon, path = name.partition(":")
    for known in (name, f"{namespace}{colon}{path.removeprefix('agents/')}"):
        found: Any = agents.get(known)
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
    names = ", ".join([*agents, _SELF])
    raise ValueError(f"Agent '{name[:100]}' not found. Known: {names}.")
