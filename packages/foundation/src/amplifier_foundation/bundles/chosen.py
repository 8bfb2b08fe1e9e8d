"""Which bundles of one load a project has chosen, wherever they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from amplifier_foundation import paths
from amplifier_foundation.bundles.bundle import Place
from amplifier_foundation.config.project_files import is_of_project
from amplifier_foundation.settings import Settings

__all__ = ["ChosenBundles"]

_OURS = Path(__file__).resolve().parent.parent


class ChosenBundles:
    """What a project names is the project's too, though it was fetched or is in another folder.

    Otherwise a project's file could say by a bundle from elsewhere what it may not say itself.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_user = _named_in(settings, of_user=True)
        self._by_project = _named_in(settings, of_user=False)
        self._roots: list[Path] = []

    def is_of_project(self, path: Path) -> bool:
        """Tell whether what a file says is what the project says."""
        if is_of_project(path, self._settings):
            return True
        if path.resolve().is_relative_to(_OURS) or self._is_users(path):
            return False
        return any(path.resolve().is_relative_to(root) for root in self._roots)

    def is_by_project(self, reference: str, place: Place) -> bool:
        """Tell whether a reference is the project's: in its settings, or in a file of it."""
        if reference in self._by_user:
            return False
        # A place without a namespace is the command line, or the settings.
        in_file = bool(place.namespace) and self.is_of_project(place.file)
        return in_file or reference in self._by_project

    def refuse_ungranted(self, address: str, place: Place) -> bool:
        """Tell whether the project wants an address fetched; raises TrustError if not granted."""
        by_project = self.is_by_project(address, place)
        if by_project:
            # Most sessions fetch nothing for a project, and do not pay for this.
            from amplifier_foundation.config.addresses import origins_in  # noqa: PLC0415
            from amplifier_foundation.config.project_values import refuse_ungranted  # noqa: PLC0415

            settings = self._settings
            refuse_ungranted(origins_in(address), settings.granted, settings.project)
        return by_project

    def note(self, found: Path, *, by_project: bool) -> None:
        """Remember what a reference has led to."""
        if not by_project or self._is_users(found):
            return
        found = found.resolve()
        cache = paths.cache(self._settings.home).resolve()
        if found.is_relative_to(cache) and found != cache:
            self._roots.append(cache / found.relative_to(cache).parts[0])
        else:
            self._roots.append(found if found.is_dir() else found.parent)

    def _is_users(self, path: Path) -> bool:
        """Tell whether a file is in the user's folder, and was not fetched there."""
        home = self._settings.home.resolve()
        real = path.resolve()
        return real.is_relative_to(home) and not real.is_relative_to(paths.cache(home))


def _named_in(settings: Settings, *, of_user: bool) -> set[str]:
    """Return the references to bundles in the user's settings, or in the project's."""
    found: set[str] = set()
    for layer in settings.layers:
        if (layer.scope == "user") is not of_user:
            continue
        about = cast("dict[str, Any]", layer.values.get("bundle") or {})
        sources = cast("dict[str, Any]", layer.values.get("sources") or {})
        named: list[Any] = [about.get("active"), *(about.get("app") or ())]
        named += (about.get("added") or {}).values()
        named += (sources.get("bundles") or {}).values()
        found.update(each for each in named if isinstance(each, str))
    return found
