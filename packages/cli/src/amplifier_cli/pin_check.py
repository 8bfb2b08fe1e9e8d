"""Whether modules are what `amplifier.lock` pins, also those whose path it does not say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from amplifier_foundation.bundles import known_bundles
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.preparing import Wishes, current_settings, get_ready
from amplifier_foundation.sources.errors import LOCK_COMMAND, command_for
from amplifier_foundation.sources.lock import ELSEWHERE, Pin
from amplifier_foundation.sources.resolver import SourceResolver
from amplifier_foundation.sources.uri import parse_source

__all__ = ["Compared", "Drift", "compare_pins"]


class Drift(NamedTuple):
    """A module that is not what is pinned."""

    module_id: str
    told: str
    fix: str


class Compared(NamedTuple):
    """What was found; of the `unknown` modules nobody says where they are."""

    drifts: list[Drift]
    unknown: list[str]


def compare_pins(resolver: SourceResolver) -> Compared:
    """Compare every module of the lock with its pin.

    A path outside the project is not in the lock. It is taken from the active bundle, else from any
    that has a name: the lock may have been made for one that is not active.
    """
    drifts: list[Drift] = []
    elsewhere: list[str] = []
    for module_id, pin in resolver.lock.modules.items():
        if pin.source == ELSEWHERE:
            elsewhere.append(module_id)
            continue
        drift = _compare(resolver, module_id, _source_of(pin), None)
        if drift is not None:
            drifts.append(drift)
    found = _compare_elsewhere(resolver, elsewhere)
    return Compared([*drifts, *found.drifts], found.unknown)


def _compare_elsewhere(resolver: SourceResolver, module_ids: Iterable[str]) -> Compared:
    """Compare modules with the paths that bundles name; one path that is right is enough."""
    left = set(module_ids)
    drifts: dict[str, Drift] = {}
    for bundle in _bundles():
        if not left:
            break
        sources = _path_sources(bundle)
        for module_id in sorted(left & sources.keys()):
            drift = _compare(resolver, module_id, sources[module_id], bundle)
            if drift is None:
                left.remove(module_id)
                drifts.pop(module_id, None)
            else:
                drifts.setdefault(module_id, drift)
    return Compared(list(drifts.values()), sorted(left - drifts.keys()))


def _compare(
    resolver: SourceResolver, module_id: str, source: Any, bundle: str | None
) -> Drift | None:
    try:
        resolver.locate(module_id, source)
    except FoundationError as error:
        if error.fix == LOCK_COMMAND:
            fix = command_for(LOCK_COMMAND, bundle)
        else:
            fix = error.fix
        return Drift(module_id, f"{error.message} {error.why}".strip(), fix)
    return None


def _source_of(pin: Pin) -> str | None:
    if pin.source.startswith("package:"):
        return None
    return pin.source


def _bundles() -> Iterator[str | None]:
    """Yield the active bundle, which needs no name, and then the others that have one."""
    yield None
    settings = current_settings(Path.cwd())
    active = settings.get("bundle.active")
    yield from (name for name in known_bundles(settings) if name != active)


def _path_sources(bundle: str | None) -> dict[str, Any]:
    """Return the sources of a bundle's modules that are paths; none if it cannot be loaded."""
    try:
        ready = asyncio.run(get_ready(Wishes(bundle=bundle)))
    except FoundationError:
        # What is wrong with the active one is the finding of another look.
        return {}
    named = {each["module"]: each["source"] for each in ready.entries if each.get("source")}
    return {name: source for name, source in named.items() if parse_source(source).kind == "path"}
