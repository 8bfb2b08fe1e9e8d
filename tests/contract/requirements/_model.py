"""What one requirement is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Requirement:
    """One thing the kernel or a module of ours promises.

    `source` names the document and section it comes from; `says` is the promise in one sentence.
    `reading` records the choice made where sources contradict each other. `deferred` is the reason
    why nothing tests it yet.
    """

    source: str
    says: str
    reading: str | None = None
    deferred: str | None = None
