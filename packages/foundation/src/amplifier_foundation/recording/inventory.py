"""What a session is made of, as its log tells it: the plan, the modules, what they offer."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from amplifier_core import events
from amplifier_core.effects import declaration_of
from amplifier_core.interfaces import input_schema_of
from amplifier_core.redaction import redact_secrets
from amplifier_foundation.recording.plain import digest_of, plain, plain_model
from amplifier_kit.calls.prices import PriceTable, price_table
from amplifier_kit.module_ids import package_of
from amplifier_kit.session_folder import working_folder

# The events whose handlers can change what a turn does.
_DECIDING = (
    events.PROMPT_SUBMIT,
    events.PROVIDER_REQUEST,
    events.PROVIDER_RESPONSE,
    events.TOOL_PRE,
    events.TOOL_POST,
)


def opening_of(coordinator: Any, plan: Any, *, resumed: bool, bundle: str | None) -> dict[str, Any]:
    """Return the record that opens a session's log; without `plan` it has the session's own."""
    plan = redact_secrets(plain(coordinator.config if plan is None else plan))
    return {
        "plan": plan,
        "config_digest": digest_of(plan),
        "bundle": bundle,
        "working_dir": str(working_folder(coordinator)),
        "kernel": _version("amplifier-core"),
        "modules": plain(coordinator.session.status.modules),
        "resumed": resumed,
        "parent_id": coordinator.parent_id,
        "approvals": coordinator.approval_system is not None,
        "display": coordinator.display_system is not None,
    }


def inventory_of(coordinator: Any) -> dict[str, Any]:
    """Return what the mounted providers and tools say of themselves."""
    points = coordinator.mount_points
    return {
        "providers": [
            _provider(name, each, price_table(coordinator))
            for name, each in points["providers"].items()
        ],
        "tools": [_tool(name, each) for name, each in points["tools"].items()],
        "hooks": {event: coordinator.hooks.list_handlers(event)[event] for event in _DECIDING},
    }


def _provider(name: str, provider: Any, prices: PriceTable) -> dict[str, Any]:
    own_name = str(getattr(provider, "name", name))
    settings: Any = getattr(provider, "config", None)
    own: Any = getattr(provider, "priority", None)
    if own is None and isinstance(settings, Mapping):
        own = cast("Mapping[str, Any]", settings).get("priority")
    return {
        "name": name,
        "own_name": own_name,
        "module": package_of(provider),
        "prices": prices.declared_by(own_name),
        "info": plain_model(provider.get_info()),
        "priority": plain(own),
        "counts": callable(getattr(provider, "count_tokens", None)),
        "streams": callable(getattr(provider, "stream", None)),
    }


def _tool(name: str, tool: Any) -> dict[str, Any]:
    declared = declaration_of(tool)
    return {
        "name": name,
        "own_name": str(getattr(tool, "name", name)),
        "module": package_of(tool),
        "description": str(getattr(tool, "description", "")),
        "input_schema": plain(input_schema_of(tool)),
        "effect": declared.effect,
        "deadline_seconds": declared.deadline_seconds,
        "output_trusted": declared.output_trusted,
        "require_approval": getattr(tool, "require_approval", None) is True,
        "network": plain(getattr(tool, "network", None)),
    }


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"
