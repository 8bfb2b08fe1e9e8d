"""Every requirement by its ID, and the decorator by which a test says which ones it proves.

Sources: S0 Contribution Channels, S1 Module Contracts, S2 Coordinator API, S3 Core Contracts
(type mapping and lifecycle), S4 Module Source Protocol; "spec" is the kernel specification that
completes them, "architecture" our own rulings and additions, "own" what our modules and kit add.

An ID never changes its meaning. A requirement that is dropped takes its number with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from contract.requirements import (
    _agents,
    _api,
    _channels,
    _coordinator,
    _hooks,
    _invariants,
    _kit,
    _lifecycle,
    _loader,
    _models,
    _modules,
    _published,
    _seed_s0,
    _seed_s1,
    _seed_s2_members,
    _seed_s2_patterns,
    _seed_s3,
    _seed_s4,
    _session,
    _vocabulary,
)
from contract.requirements._model import Requirement

__all__ = ["REQUIREMENTS", "Requirement", "requirement", "requirements_of"]

_AREAS = (
    _api,
    _hooks,
    _coordinator,
    _channels,
    _session,
    _lifecycle,
    _loader,
    _models,
    _vocabulary,
    _modules,
    _agents,
    _kit,
    _invariants,
    _published,
    _seed_s0,
    _seed_s1,
    _seed_s2_members,
    _seed_s2_patterns,
    _seed_s3,
    _seed_s4,
)

REQUIREMENTS: dict[str, Requirement] = {
    requirement_id: entry for area in _AREAS for requirement_id, entry in area.REQUIREMENTS.items()
}

_Test = TypeVar("_Test", bound=Callable[..., Any])


def requirement(*ids: str) -> Callable[[_Test], _Test]:
    """Say that the decorated test proves these requirements.

    Write the IDs as string literals: the coverage check reads them without importing the test.

    Raises:
        LookupError: an ID is not in the manifest, or none was given.
    """
    unknown = [requirement_id for requirement_id in ids if requirement_id not in REQUIREMENTS]
    if unknown or not ids:
        named = ", ".join(unknown) or "no ID at all"
        raise LookupError(f"Not in the contract manifest: {named}.")

    def mark(test: _Test) -> _Test:
        test.__dict__["__requirements__"] = (*requirements_of(test), *ids)
        return test

    return mark


def requirements_of(test: Callable[..., Any]) -> tuple[str, ...]:
    """Give the IDs a test function carries, at run time."""
    return getattr(test, "__requirements__", ())
