"""Options of one session, which override the settings and the bundle."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from amplifier_foundation.errors import GuardError, SettingsError
from amplifier_foundation.guards import is_guard
from amplifier_kit.widenings import OPENINGS, Kind

__all__ = ["PARTS", "SessionOptions", "apply_options", "model_key", "opens_sandbox", "provider_id"]

_APPROVAL = "hooks-approval"
PARTS = {"loop": "orchestrator", "context": "context"}
# What `--allow` names if it is not a tool: something beyond the sandbox.
_KINDS: tuple[str, ...] = get_args(Kind)
_FORMS = {
    "network": "It is network:packages or network:DOMAIN, such as network:example.org.",
    "pages": "It is pages:DOMAIN, a host alone, such as pages:docs.example.org.",
    "write": "It is write:.git, or write:PATH with a path that leads out of the project.",
    "background": "It is background alone.",
    "outside_sandbox": "Leaving the sandbox is decided call by call.",
}
_MODEL_KEYS = ("default_model", "model")
_SECTIONS = {"provider": "providers", "tool": "tools", "hook": "hooks"}


@dataclass(frozen=True)
class SessionOptions:
    """The options of one session; None leaves the choice to settings and bundle."""

    bundle: str | None = None
    provider: str | None = None
    model: str | None = None
    modules: tuple[str, ...] = ()
    budget_usd: str | None = None
    output_schema: dict[str, Any] | None = None
    tools: bool = True
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str | None = None


def provider_id(provider: str) -> str:
    """Return the module that `anthropic` or `provider-anthropic` stands for."""
    if provider.startswith("provider-"):
        return provider
    return f"provider-{provider}"


def model_key(config: dict[str, Any]) -> str:
    """Return the key by which the configuration of a provider names its model."""
    return next((key for key in _MODEL_KEYS if key in config), _MODEL_KEYS[0])


def opens_sandbox(allowed: str) -> bool:
    """Whether a value of `--allow` is about the sandbox, and not the name of a tool.

    Raises:
        SettingsError: it is, and opens nothing.
    """
    kind = allowed.partition(":")[0]
    # No tool has a colon in its name.
    if kind not in _KINDS and ":" not in allowed:
        return False
    if re.fullmatch(OPENINGS, allowed):
        return True
    raise SettingsError(
        f"`--allow {allowed}` opens nothing.",
        why=_FORMS.get(kind, "What can be opened is network, pages, write and background."),
        fix="amplifier run --help",
    )


def apply_options(options: SessionOptions, plan: dict[str, Any]) -> None:
    """Write the options into the plan.

    Raises:
        GuardError: a module in `modules` would replace a guard.
        SettingsError: the type of a module in `modules` cannot be determined.
    """
    if options.provider is not None:
        wanted = provider_id(options.provider)
        plan["providers"] = [each for each in plan["providers"] if each["module"] == wanted]
    if not options.tools:
        plan["tools"] = []
    for each in options.modules:
        _add_module(plan, each)
    # After the modules: a provider among them comes first, and is the one the model is meant for.
    if options.model is not None:
        first: dict[str, Any] = plan["providers"][0]
        config: dict[str, Any] = first.get("config") or {}
        first["config"] = {**config, model_key(config): options.model}
    if options.output_schema is not None:
        loop: dict[str, Any] = plan["session"]["orchestrator"]
        loop["config"] = {**(loop.get("config") or {}), "output_schema": options.output_schema}
    if options.budget_usd is not None:
        _limit(plan, options.budget_usd)
    opened = [each for each in options.allow if opens_sandbox(each)]
    allowed = [each for each in options.allow if each not in opened]
    rules = [
        {"tool": tool, "action": action, "who": f"--{action}"}
        for action, tools in (("deny", options.deny), ("allow", allowed))
        for tool in tools
    ]
    if opened:
        _configure_approval(
            plan, "--allow", lambda config: {"open": [*(config.get("open") or []), *opened]}
        )
    if rules:
        # Prepended: among rules that allow or ask, the first match decides.
        _configure_approval(
            plan, rules[0]["who"], lambda config: {"rules": [*rules, *(config.get("rules") or [])]}
        )
    if options.mode is not None:
        _configure_approval(plan, "--mode", lambda _: {"mode": options.mode})


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
        # Without what the user asked for on the command line, the session is another one.
        entry["required"] = True
        # The first provider answers.
        plan[section] = [entry, *others] if kind == "provider" else [*others, entry]
    else:
        raise SettingsError(
            f"`{where}` does not say what kind of module it is.",
            why="Neither its id nor an `__amplifier_module_type__` in its package says it.",
            fix="amplifier module list",
        )


def _is_guarded(entry: dict[str, Any], hooks: list[dict[str, Any]]) -> bool:
    """Whether the plan already has this guard, which then keeps its own configuration.

    Raises:
        GuardError: the entry has another source than the guard of the plan.
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
    # Imported here because only a session with `modules` needs it.
    from amplifier_foundation.sources.project import find_package, module_type  # noqa: PLC0415

    path = Path(where)
    if not path.is_dir():
        return {"module": where}, _installed_type(where)
    folder = path.resolve()
    found = find_package(folder)
    if found is None:
        raise SettingsError(
            f"There is no module in `{where}`.",
            why="Neither the folder nor its `src` has a Python package.",
            fix="amplifier module list",
        )
    kind = module_type(found.module_id, found.package)
    return {"module": found.module_id, "source": str(folder)}, kind


def _installed_type(module_id: str) -> str | None:
    from amplifier_foundation.sources.package import InstalledModules  # noqa: PLC0415 - metadata
    from amplifier_foundation.sources.project import module_type  # noqa: PLC0415 - as above

    found = InstalledModules().find(module_id)
    return module_type(module_id, None if found is None else found.path)


def _configure_approval(
    plan: dict[str, Any], flag: str, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Change the configuration of the guard of all tools.

    Raises:
        SettingsError: the plan has no such guard.
    """
    hooks: list[dict[str, Any]] = plan.get("hooks") or []
    own = next((each for each in hooks if each["module"] == _APPROVAL), None)
    if own is None:
        raise SettingsError(
            f"`{flag}` has no effect here.",
            why=f"The bundle has no `{_APPROVAL}`, which the flag is for.",
            fix="leave the flag out",
        )
    config: dict[str, Any] = own.get("config") or {}
    entry: dict[str, Any] = {**own, "config": {**config, **change(config)}}
    plan["hooks"] = [entry if each is own else each for each in hooks]


def _limit(plan: dict[str, Any], usd: str) -> None:
    """Set the session's budget, and require the guard that enforces it."""
    hooks: list[dict[str, Any]] = plan.get("hooks") or []
    own = next((each for each in hooks if each["module"] == "hooks-budget"), None)
    config: dict[str, Any] = {**((own or {}).get("config") or {}), "usd": usd}
    entry = {**(own or {"module": "hooks-budget"}), "config": config, "required": True}
    plan["hooks"] = [*(each for each in hooks if each is not own), entry]
