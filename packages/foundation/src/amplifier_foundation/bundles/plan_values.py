"""The values of a plan: the user's as they are, the project's as far as they may be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amplifier_foundation.bundles.bundle import Agent
from amplifier_foundation.bundles.providers import add_keys
from amplifier_foundation.config.modules import merge_modules
from amplifier_foundation.config.variables import MISSING, UNSET, Lookup, expand_value
from amplifier_foundation.credentials import find_key
from amplifier_foundation.settings import Settings

if TYPE_CHECKING:
    from amplifier_foundation.config.project_values import ProjectValues

__all__ = ["PlanValues"]

# Only these are configuration; a text may speak about `${NAME}` as it likes.
_OF_AGENTS = ("session", "providers", "tools", "hooks")


class PlanValues:
    """One plan while its variables are expanded and the project's share of it is checked."""

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
        providers = self._settle(sections["providers"], own["providers"], self._from_anywhere)
        settled["providers"] = add_keys(providers, self._settings, self._environ)
        return settled

    def agents(
        self, overlays: dict[str, dict[str, Any]], own: dict[str, Any], of_user: dict[str, Agent]
    ) -> dict[str, dict[str, Any]]:
        """Return the overlays of agents; `of_user` are those that the project does not define."""
        for name, overlay in overlays.items():
            users = dict(of_user[name].overlay) if name in of_user else {}
            # An agent has tools of its parent besides its own.
            users["tools"] = merge_modules(own["tools"], users.get("tools") or [])
            for section in _OF_AGENTS:
                if section in overlay:
                    overlay[section] = self._settle(
                        overlay[section], users.get(section, MISSING), self._from_environment
                    )
        return overlays

    def refuse_ungranted(self) -> None:
        """Raise TrustError when an address of the project was not granted."""
        if self._of_project is not None:
            from amplifier_foundation.config.project_values import refuse_ungranted  # noqa: PLC0415

            settings = self._settings
            refuse_ungranted(self._of_project.origins, settings.granted, settings.project)

    def _settle(self, value: Any, own: Any, lookup: Lookup) -> Any:
        if value == own:
            settled = expand_value(own, lookup, self._unset)
            if settled is UNSET:
                return type(value)()
            return settled
        if self._of_project is None:
            # In most folders no project says anything, and nobody pays for this.
            from amplifier_foundation.config.project_values import ProjectValues  # noqa: PLC0415

            self._of_project = ProjectValues(self._settings.project, self._unset)
        return self._of_project.settle(value, own, lookup)

    def _from_environment(self, name: str) -> str | None:
        return self._environ.get(name) or None

    def _from_anywhere(self, name: str) -> str | None:
        key = find_key(name, home=self._settings.home, environ=self._environ)
        return key.value if key else None
