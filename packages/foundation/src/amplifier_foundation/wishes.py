"""What somebody wants of one session, over what the settings and the bundle say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amplifier_foundation.errors import GuardError, SettingsError
from amplifier_foundation.guards import is_guard

__all__ = ["PARTS", "Wishes", "apply_wishes", "model_key", "provider_id"]

_APPROVAL = "hooks-approval"
PARTS = {"loop": "orchestrator", "context": "context"}
_MODEL_KEYS = ("default_model", "model")
_SECTIONS = {"provider": "providers", "tool": "tools", "hook": "hooks"}


@dataclass(frozen=True)
class Wishes:
    """What is asked for; what is None is left to settings and bundle."""

    bundle: str | None = None
    provider: str | None = None
    model: str | None = None
    modules: tuple[str, ...] = ()
    budget_usd: str | None = None
    output_schema: dict[str, Any] | None = None
    tools: bool = True
    allow: tuple[str, ...] = ()


def provider_id(provider: str) -> str:
    """Return the module that `anthropic` or `provider-anthropic` stands for."""
    if provider.startswith("provider-"):
        return provider
    return f"provider-{provider}"


def model_key(config: dict[str, Any]) -> str:
    """Return the key by which the configuration of a provider names its model."""
    return next((key for key in _MODEL_KEYS if key in config), _MODEL_KEYS[0])


def apply_wishes(wishes: Wishes, plan: dict[str, Any]) -> None:
    """Write the wishes into the plan.

    Raises:
        GuardError: a module is wanted that would take the place of a guard.
        SettingsError: a module is wanted whose name does not say what it is.
    """
    if wishes.provider is not None:
        wanted = provider_id(wishes.provider)
        plan["providers"] = [each for each in plan["providers"] if each["module"] == wanted]
    if not wishes.tools:
        plan["tools"] = []
    for each in wishes.modules:
        _add_module(plan, each)
    if wishes.model is not None:
        first: dict[str, Any] = plan["providers"][0]
        config: dict[str, Any] = first.get("config") or {}
        first["config"] = {**config, model_key(config): wishes.model}
    if wishes.output_schema is not None:
        loop: dict[str, Any] = plan["session"]["orchestrator"]
        loop["config"] = {**(loop.get("config") or {}), "output_schema": wishes.output_schema}
    if wishes.budget_usd is not None:
        _limit(plan, wishes.budget_usd)
    if wishes.allow:
        _allow(plan, wishes.allow)


def _add_module(plan: dict[str, Any], where: str) -> None:
    entry, kind = _entry_of(where)
    if kind in PARTS.values():
        plan["session"][kind] = entry
    elif kind in _SECTIONS:
        section = _SECTIONS[kind]
        there: list[dict[str, Any]] = plan.get(section) or []
        if kind == "hook" and _is_guarded(entry, there):
            return
        others = [each for each in there if each["module"] != entry["module"]]
        # The first provider answers.
        plan[section] = [entry, *others] if kind == "provider" else [*others, entry]
    else:
        raise SettingsError(
            f"`{where}` does not say what kind of module it is.",
            why="Neither its id nor an `__amplifier_module_type__` in its package says it.",
            fix="amplifier module list",
        )


def _is_guarded(entry: dict[str, Any], hooks: list[dict[str, Any]]) -> bool:
    """Whether this is a guard that the plan has already, which stays with its configuration.

    Raises:
        GuardError: it would come from elsewhere.
    """
    own = next((each for each in hooks if each["module"] == entry["module"]), None)
    if own is None or not is_guard(own):
        return False
    if entry.get("source") not in (None, own.get("source")):
        guard = entry["module"]
        raise GuardError(
            f"`{guard}` is a guard, and `--module` does not replace it.",
            why="Only an entry that names it does: in a bundle's `hooks` or the settings.",
            fix=f"write into that entry: `replaces: {guard}` and `source: {entry['source']}`",
        )
    return True


def _entry_of(where: str) -> tuple[dict[str, Any], str | None]:
    """Return the plan's entry for a folder or an installed id, and the type of the module."""
    # Only a wish for a module pays for finding one.
    from amplifier_foundation.sources.project import find_package, module_type  # noqa: PLC0415

    path = Path(where)
    if not path.is_dir():
        return {"module": where}, _installed_type(where)
    folder = path.resolve()
    found = find_package(folder)
    if found is None:
        module_id = folder.name.removeprefix("amplifier-module-")
    else:
        module_id = found.module_id
    kind = module_type(module_id, None if found is None else found.package)
    return {"module": module_id, "source": str(folder)}, kind


def _installed_type(module_id: str) -> str | None:
    from amplifier_foundation.sources.package import InstalledModules  # noqa: PLC0415 - metadata
    from amplifier_foundation.sources.project import module_type  # noqa: PLC0415 - as above

    found = InstalledModules().find(module_id)
    return module_type(module_id, None if found is None else found.path)


def _allow(plan: dict[str, Any], tools: tuple[str, ...]) -> None:
    """Let these tools be called without a question; rules that deny still do."""
    hooks: list[dict[str, Any]] = plan.get("hooks") or []
    own = next((each for each in hooks if each["module"] == _APPROVAL), None)
    if own is None:
        raise SettingsError(
            "`--allow` has no effect here.",
            why=f"The bundle has no `{_APPROVAL}`, which the flag gives its rules to.",
            fix="leave the flag out",
        )
    config: dict[str, Any] = own.get("config") or {}
    allowed = [{"tool": each, "action": "allow", "who": "--allow"} for each in tools]
    # First, because of the rules that allow or ask the first one decides.
    rules: list[Any] = [*allowed, *(config.get("rules") or [])]
    entry: dict[str, Any] = {**own, "config": {**config, "rules": rules}}
    plan["hooks"] = [entry if each is own else each for each in hooks]


def _limit(plan: dict[str, Any], usd: str) -> None:
    """Give the session a budget that it cannot run without."""
    hooks: list[dict[str, Any]] = plan.get("hooks") or []
    own = next((each for each in hooks if each["module"] == "hooks-budget"), None)
    config: dict[str, Any] = {**((own or {}).get("config") or {}), "usd": usd}
    entry = {**(own or {"module": "hooks-budget"}), "config": config, "required": True}
    plan["hooks"] = [*(each for each in hooks if each is not own), entry]
