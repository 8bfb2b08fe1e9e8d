"""Compile a bundle and the settings to a mount plan and instructions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from amplifier_foundation.bundles.agents import agent_overlays
from amplifier_foundation.bundles.bundle import Agent, Bundle, Missing
from amplifier_foundation.bundles.bundle_loader import default_bundle
from amplifier_foundation.bundles.mentions import Instruction, Texts, standing_instructions
from amplifier_foundation.bundles.providers import (
    ProviderChoice,
    add_keys,
    chosen_providers,
    detect_provider,
)
from amplifier_foundation.config.contents import Contents
from amplifier_foundation.config.model_prices import prices_of
from amplifier_foundation.config.modules import (
    SESSION_PARTS,
    long_form,
    merge,
    merge_modules,
    module_list,
)
from amplifier_foundation.config.named_files import command_of, script_of, servers_in
from amplifier_foundation.config.project_files import is_of_project, refuse_untrusted
from amplifier_foundation.config.variables import MISSING, UNSET, Lookup, expand_value
from amplifier_foundation.credentials import find_key
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

if TYPE_CHECKING:
    from amplifier_foundation.config.project_values import ProjectValues

_SKILLS = "tool-skills"


def refuse_unlisted(plan: dict[str, Any], settings: Settings) -> None:
    """Check the scripts of servers and the folders of skills, after variables were expanded.

    Raises:
        TrustError: one of them is the project's, and not on the list that the user decided about.
    """
    for _, server in servers_in(plan):
        for path in _scripts(server, settings):
            if path.is_file() and is_of_project(path, settings):
                refuse_untrusted(path, settings)
    if settings.trusted:
        # An untrusted folder's skills are not offered, so there is nothing to refuse.
        for path in _skill_folders(plan, settings):
            for file in Contents(settings.project, settings.home).files(path):
                refuse_untrusted(file, settings)


def _scripts(server: dict[str, Any], settings: Settings) -> list[Path]:
    script = script_of(command_of(server))
    if script is None:
        return []
    return _existing([settings.project / str(server.get("cwd") or ".") / script])


def _skill_folders(plan: dict[str, Any], settings: Settings) -> list[Path]:
    tools: list[dict[str, Any]] = plan.get("tools") or []
    found: list[Path] = []
    for entry in tools:
        config: Any = entry.get("config")
        if entry["module"] == _SKILLS and isinstance(config, dict):
            values = cast("dict[str, Any]", config)
            working = settings.project / str(values.get("working_dir") or ".")
            folders: Any = values.get("paths")
            if isinstance(folders, list):
                found += [working / os.path.expanduser(str(each)) for each in folders]  # noqa: PTH111  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - never raises
    return [path for path in _existing(found) if is_of_project(path, settings)]


def _existing(paths: list[Path]) -> list[Path]:
    """Return the real paths of those that exist."""
    real = [Path(os.path.realpath(path)) for path in paths]
    return [path for path in real if os.path.lexists(path)]


# Variables are expanded only in these: an instruction may contain `${NAME}` as text.
_OF_AGENTS = ("session", "providers", "tools", "hooks")


class PlanValues:
    """Expands the variables of one plan, and checks what the project's files contribute to it."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ
        self._unset: list[str] = []
        self._of_project: ProjectValues | None = None

    @property
    def notices(self) -> list[str]:
        """What was left out of the plan, and why."""
        unset = [
            f"`${{{name}}}` is not set; what it would have set was left out."
            for name in dict.fromkeys(self._unset)
        ]
        if self._of_project is None:
            withheld = []
        else:
            withheld = self._of_project.notices
        return [*withheld, *unset]

    def sections(self, sections: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        """Return the sections of a plan; `own` are those without the project's files."""
        settled = {
            name: self._settle(value, own.get(name, MISSING), self._from_environment)
            for name, value in sections.items()
            if name != "providers"
        }
        # Only providers get keys from the credentials file and the keyring.
        providers = self._settle(sections["providers"], own["providers"], self._from_anywhere)
        settled["providers"] = add_keys(providers, self._settings, self._environ)
        return settled

    def agents(
        self, overlays: dict[str, dict[str, Any]], own: dict[str, Any], of_user: dict[str, Agent]
    ) -> dict[str, dict[str, Any]]:
        """Return the overlays of agents; `of_user` are those that the project does not define."""
        for name, overlay in overlays.items():
            users = dict(of_user[name].overlay) if name in of_user else {}
            # An agent inherits tools of its parent, which are the user's if the parent's are.
            users["tools"] = merge_modules(own["tools"], users.get("tools") or [])
            for section in _OF_AGENTS:
                if section in overlay:
                    overlay[section] = self._settle(
                        overlay[section], users.get(section, MISSING), self._from_environment
                    )
        return overlays

    def refuse_ungranted(self) -> None:
        """Raise TrustError if an address of the project was not granted."""
        if self._of_project is not None:
            from amplifier_foundation.config.project_values import refuse_ungranted  # noqa: PLC0415

            settings = self._settings
            refuse_ungranted(self._of_project.origins, settings.granted, settings.project)

    def _settle(self, value: Any, own: Any, lookup: Lookup) -> Any:
        # Equal with and without the project's files, so it is the user's own.
        if value == own:
            settled = expand_value(own, lookup, self._unset)
            if settled is UNSET:
                return type(value)()
            return settled
        if self._of_project is None:
            # Imported here because in most folders no project sets anything.
            from amplifier_foundation.config.project_values import ProjectValues  # noqa: PLC0415

            self._of_project = ProjectValues(self._settings.project, self._unset)
        return self._of_project.settle(value, own, lookup)

    def _from_environment(self, name: str) -> str | None:
        return self._environ.get(name) or None

    def _from_anywhere(self, name: str) -> str | None:
        key = find_key(name, home=self._settings.home, environ=self._environ)
        return key.value if key else None


_LISTS = ("providers", "tools", "hooks")


class Prepared(NamedTuple):
    """A compiled bundle. The plan may have keys in it: never show or store it as it is.

    `provider` is the choice that was made because neither bundle nor settings name one.
    `notices` are for the user. They include what is `missing`: what the bundle names and does not
    exist.
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
    """Merge the settings into the bundle, read its texts, and expand variables and keys.

    Raises:
        BundleError: a file that the bundle names cannot be found, read or used.
        GuardError: settings or an agent would replace a guard without naming it.
        PlanError: an entry is malformed.
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
    # After expansion: what counts is the address that a session would connect to.
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
    """Return the sections of the plan, with variables not yet expanded, and notices."""
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
        # The source of a guard changes only by an entry that says `replaces` (see `_hooks`).
        if entry["module"] in sources and not is_guard(entry):
            entry["source"] = sources[entry["module"]]
    return sections, notices


def _hooks(bundle: Bundle, settings: Settings, notices: list[str]) -> list[dict[str, Any]]:
    """Return the hooks of the bundle, overridden by those of each layer of the settings."""
    check_keys(bundle.hooks, bundle.path)
    hooks = bundle.hooks
    # Layer by layer instead of merged: each layer has to name the guard that it replaces.
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
        # Found by a key or an address of the user, so it is not the project's choice.
        return {**own, "providers": sections["providers"]}
    return own


def _entries(sections: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for name in _LISTS for entry in sections.get(name) or ()]


def _check_agent(name: str, overlay: dict[str, Any], hooks: list[dict[str, Any]]) -> None:
    """Raise GuardError if an agent would have another guard than the session that starts it."""
    own = module_list(overlay.get("hooks") or [])
    where = f"agent {name}"
    if own is None:
        raise BundleError(f"`hooks` of `{where}` cannot be used.", why="It is a list of modules.")
    check_keys(own, where)
    refuse_replacement(hooks, own, where)
