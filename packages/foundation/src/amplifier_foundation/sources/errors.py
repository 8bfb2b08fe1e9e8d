"""Errors about the sources of modules and bundles.

SourceError (of the foundation)
├── SourceFormatError           the text is not a valid source
├── LockFileError               the lock itself cannot be read
└── ModuleSourceError           also the kernel's ModuleLoadError
    ├── FetchError              it could not be fetched
    │   └── MissingSourceError  a bundle that is not pinned either: it can be left out
    ├── RejectedArchiveError    reason
    ├── UngrantedError          it is in a project, and the user did not trust it
    ├── UnpinnedError
    ├── DriftError              expected, found
    ├── KernelMismatchError     required, contract
    └── AmbiguousModuleError    distributions

Being load errors, they end the search: the kernel looks elsewhere only for a module that is not
found, and another module must never replace one that was refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from amplifier_core.errors import ModuleLoadError
from amplifier_foundation.errors import SourceError

__all__ = [
    "LOCK_COMMAND",
    "AmbiguousModuleError",
    "DriftError",
    "FetchError",
    "KernelMismatchError",
    "LockFileError",
    "MissingSourceError",
    "ModuleSourceError",
    "RejectedArchiveError",
    "SourceFormatError",
    "UngrantedError",
    "UnpinnedError",
    "command_for",
]

LOCK_COMMAND = "amplifier module lock"


def command_for(command: str, bundle: str | None) -> str:
    """Return a command for the bundle that was asked for by name, if one was."""
    if bundle is None:
        return command
    return f"{command} -b {shlex.quote(bundle)}"


class SourceFormatError(SourceError):
    """The text is not a source that can be used."""

    exit_code = 2
    is_missing = True


class LockFileError(SourceError):
    """`amplifier.lock` cannot be read."""


class ModuleSourceError(SourceError, ModuleLoadError):
    """A module or bundle cannot be loaded from its source.

    `reason` is the kernel's code for the cause, which is in `module:load_failed`.
    """

    reason = "validation_failed"

    def __init__(
        self, message: str, *, why: str = "", fix: str = "", module_id: str | None = None
    ) -> None:
        super().__init__(message, why=why, fix=fix)
        self.module_id = module_id
        self.reason_code = self.reason


class FetchError(ModuleSourceError):
    """The source could not be fetched: it does not exist, or is too large, too slow, or offline."""

    reason = "missing_source"


class MissingSourceError(FetchError):
    """A bundle's source without a pin could not be fetched, now or when it was locked."""

    is_missing = True


class RejectedArchiveError(ModuleSourceError):
    """An archive or a commit has an unsafe name, size or type of file; nothing of it is kept."""

    exit_code = 3

    def __init__(self, archive: str, reason: str) -> None:
        super().__init__(
            f"{archive} was rejected whole.",
            why=f"It has {reason}.",
            fix="Name another source, or ask its author to correct it.",
        )
        self.reason = reason


class UngrantedError(ModuleSourceError):
    """A module is in a project's folder, and is not what the user was shown and trusted."""

    exit_code = 3


class UnpinnedError(ModuleSourceError):
    """A remote source is not pinned in the lock."""

    exit_code = 3

    def __init__(self, name: str, source: str, bundle: str | None = None) -> None:
        origin = "" if name == source else f" from {source}"
        super().__init__(
            f"`{name}` is not fetched{origin}.",
            why="No commit and content hash are recorded for it in amplifier.lock.",
            fix=command_for(LOCK_COMMAND, bundle),
            module_id=name,
        )


class DriftError(ModuleSourceError):
    """A source or its content is not what the lock pins."""

    exit_code = 3

    def __init__(self, name: str, what: str, *, expected: str, found: str) -> None:
        super().__init__(
            f"`{name}` is not what amplifier.lock pins.",
            why=f"Its {what} is {found}, and {expected} is pinned.",
            fix=LOCK_COMMAND,
            module_id=name,
        )
        self.expected = expected
        self.found = found


class KernelMismatchError(ModuleSourceError):
    """A module requires another version of the contract than this kernel implements.

    The fix is another release of the module: another kernel would break the product.
    """

    reason = "invalid_module_metadata"

    def __init__(self, module_id: str, *, required: str, contract: str) -> None:
        super().__init__(
            f"`{module_id}` is not loaded: it requires amplifier-core {required}.",
            why=f"This kernel implements version {contract} of the contract.",
            fix=f"Choose a release of `{module_id}` that accepts amplifier-core {contract}.",
            module_id=module_id,
        )
        self.required = required
        self.contract = contract


class AmbiguousModuleError(ModuleSourceError):
    """Several installed distributions claim one module."""

    reason = "invalid_entry_point"

    def __init__(self, module_id: str, distributions: Sequence[str]) -> None:
        super().__init__(
            f"`{module_id}` is not loaded: {' and '.join(distributions)} both declare it.",
            why="Which of them would run would be a matter of chance.",
            fix=f"pip uninstall {distributions[-1]}",
            module_id=module_id,
        )
        self.distributions = tuple(distributions)
