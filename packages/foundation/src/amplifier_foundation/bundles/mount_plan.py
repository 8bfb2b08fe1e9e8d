"""What a session is made of, from a bundle and the settings: mount plan and instructions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from amplifier_foundation.bundles.agents import agent_overlays
from amplifier_foundation.bundles.bundle import Bundle, Missing
from amplifier_foundation.bundles.loading import default_bundle
from amplifier_foundation.bundles.mentions import Instruction, Texts, standing_instructions
from amplifier_foundation.bundles.plan_files import refuse_unlisted
from amplifier_foundation.bundles.plan_values import PlanValues
from amplifier_foundation.bundles.providers import (
    ProviderChoice,
    chosen_providers,
    detect_provider,
)
from amplifier_foundation.config.merge import merge
from amplifier_foundation.config.model_prices import prices_of
from amplifier_foundation.config.modules import SESSION_PARTS, long_form, merge_modules, module_list
from amplifier_foundation.errors import BundleError
from amplifier_foundation.guards import (
    check_keys,
    is_guard,
    lay_hooks,
    refuse_replacement,
    replacement_error,
    with_required_guards,
)
from amplifier_foundation.plan_shape import checked_plan
from amplifier_foundation.settings import Settings

__all__ = ["Prepared", "compile_bundle"]

_LISTS = ("providers", "tools", "hooks")


class Prepared(NamedTuple):
    """What a session is made of. The plan may hold keys: it is not to be shown or stored as it is.

    `provider` is the choice that was made because neither bundle nor settings name one.
    `notices` are for the user. They include what is `missing`: what the bundle names and is used
    without.
    """

    bundle: str
    plan: dict[str, Any]
    instructions: list[Instruction]
    provider: ProviderChoice | None
    notices: list[str]
    missing: tuple[Missing, ...] = ()


def compile_bundle(
    bundle: Bundle, settings: Settings, environ: Mapping[str, str] | None = None
) -> Prepared:
    """Lay the settings over the bundle, read its texts, put in variables and keys.

    Raises:
        BundleError: a file that the bundle names cannot be found, read or used.
        GuardError: settings or an agent would replace a guard without naming it.
        PlanError: an entry does not have the shape of one.
        TrustError: the project would send requests to an address that was not granted, or a
            server run a script of the project that is not on the list.
    """
    environ = os.environ if environ is None else environ
    texts = Texts(bundle.namespaces, settings)
    sections, notices = _sections(bundle, settings)
    provider = None
    if not sections["providers"]:
        provider = detect_provider(settings, environ)
        sections["providers"] = [{"module": provider.module, "config": provider.config}]
    checked_plan(sections)
    agents = agent_overlays(bundle, sections["tools"], texts)
    for name, overlay in agents.items():
        _check_agent(name, overlay, sections["hooks"])
    own = _own_sections(bundle, settings, sections, detected=provider is not None)
    standing = standing_instructions(settings)
    instructions = texts.of(bundle.instruction, bundle.context, standing)
    own_agents = (bundle.own or bundle).agents
    values = PlanValues(settings, environ)
    allowed = values.sections(sections, own)
    plan = with_required_guards({**allowed, "agents": values.agents(agents, own, own_agents)})
    values.refuse_ungranted()
    notices += values.notices
    refuse_unlisted(plan, settings)
    plan["pricing"], withheld = prices_of(settings)
    notices += withheld
    missing = tuple(dict.fromkeys((*bundle.missing, *texts.missing)))
    return Prepared(
        bundle=bundle.name,
        plan={key: value for key, value in plan.items() if value or key == "session"},
        instructions=instructions,
        provider=provider,
        notices=[
            *map(str, missing),
            *settings.notices,
            *bundle.notices,
            *notices,
            *texts.notices,
        ],
        missing=missing,
    )


def _sections(bundle: Bundle, settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """Return the sections of the plan as they are written, and what the person should know."""
    notices: list[str] = []
    session = merge(bundle.session, long_form(settings.get("session") or {}))
    session |= {part: dict(session.get(part) or {}) for part in SESSION_PARTS}
    missing = [part for part in SESSION_PARTS if "module" not in session[part]]
    if missing:
        standard = default_bundle(settings).session
        session |= {part: merge(standard[part], session[part]) for part in missing}
        told = ", ".join(f"`{session[part]['module']}` as {part}" for part in missing)
        notices.append(f"The bundle `{bundle.name}` leaves parts open; it gets {told}.")
    sections: dict[str, Any] = {
        "session": session,
        "providers": merge_modules(bundle.providers, chosen_providers(settings)),
        "tools": merge_modules(bundle.tools, settings.get("modules.tools") or []),
        "hooks": _hooks(bundle, settings, notices),
        "spawn": bundle.spawn,
    }
    sources: dict[str, Any] = settings.get("sources.modules") or {}
    for entry in (*(session[part] for part in SESSION_PARTS), *_entries(sections)):
        if entry["module"] in sources and not is_guard(entry):
            entry["source"] = sources[entry["module"]]
    return sections, notices


def _hooks(bundle: Bundle, settings: Settings, notices: list[str]) -> list[dict[str, Any]]:
    """Return the hooks of the bundle with those of each layer of the settings over them."""
    check_keys(bundle.hooks, bundle.path)
    hooks = bundle.hooks
    for layer in settings.layers:
        named: dict[str, Any] = layer.values.get("sources") or {}
        sources: dict[str, Any] = named.get("modules") or {}
        modules: dict[str, Any] = layer.values.get("modules") or {}
        hooks = lay_hooks(hooks, modules.get("hooks") or [], layer.path)
        for each in hooks:
            if is_guard(each) and each["module"] in sources:
                why = "Its `sources.modules` has another source for it"
                raise replacement_error(each["module"], layer.path, why)
    for each in hooks:
        is_ours = each.get("replaces") == each["module"] and not each.get("source")
        if "replaces" in each and not is_ours:
            origin = f" from {each['source']}" if each.get("source") else ""
            notices.append(f"The guard `{each['replaces']}` is `{each['module']}`{origin} here.")
    return [dict(each) for each in hooks]


def _own_sections(
    bundle: Bundle, settings: Settings, sections: dict[str, Any], *, detected: bool
) -> dict[str, Any]:
    """Return the sections as they are without the project's files."""
    of_project = [layer for layer in settings.layers if layer.scope != "user"]
    if bundle.own is None and not of_project:
        return sections
    own, _ = _sections(bundle.own or bundle, settings.of_user())
    if detected:
        return {**own, "providers": sections["providers"]}
    return own


def _entries(sections: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for name in _LISTS for entry in sections.get(name) or ()]


def _check_agent(name: str, overlay: dict[str, Any], hooks: list[dict[str, Any]]) -> None:
    """Raise GuardError when an agent would have another guard than the session that starts it."""
    own = module_list(overlay.get("hooks") or [])
    where = f"agent {name}"
    if own is None:
        raise BundleError(f"`hooks` of `{where}` cannot be used.", why="It is a list of modules.")
    check_keys(own, where)
    refuse_replacement(hooks, own, where)
