"""Where modules and bundles come from: installed, on disk, in git, in an archive; pinned by a lock.

Importing this costs little: what reads git, archives, metadata or source code is loaded when a
source asks for it.
"""

from __future__ import annotations

from amplifier_foundation.sources.errors import (
    AmbiguousModuleError,
    DriftError,
    FetchError,
    KernelMismatchError,
    MissingSourceError,
    RejectedArchiveError,
    UngrantedError,
    UnpinnedError,
)
from amplifier_foundation.sources.fetch import LIMITS, Limits, Progress
from amplifier_foundation.sources.lock import Lock, Pin
from amplifier_foundation.sources.resolver import LocatedModule, SourceResolver
from amplifier_foundation.sources.uri import Source, parse_source

__all__ = [
    "LIMITS",
    "AmbiguousModuleError",
    "DriftError",
    "FetchError",
    "KernelMismatchError",
    "Limits",
    "LocatedModule",
    "Lock",
    "MissingSourceError",
    "Pin",
    "Progress",
    "RejectedArchiveError",
    "Source",
    "SourceResolver",
    "UngrantedError",
    "UnpinnedError",
    "parse_source",
]
