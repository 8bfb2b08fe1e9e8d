"""Which version of the contract a module requires, read from its metadata before it is imported.

A module says so in its pyproject.toml as `[tool.amplifier] requires_kernel = ">=2,<3"`. Without
that, what its distribution requires of `amplifier-core` counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from amplifier_core import __version__ as kernel_version
from amplifier_foundation.sources.errors import KernelMismatchError, ModuleSourceError
from amplifier_foundation.sources.project import read_project

__all__ = ["CONTRACT", "check_kernel", "required_by", "required_in"]

# The public part of the kernel's version is the version of the contract that it implements.
CONTRACT = kernel_version.partition("+")[0]

_KERNEL = re.compile(r"amplifier[-_.]core\s*\(?\s*([<>=!~][^;)@]*)", re.IGNORECASE)


def required_in(folder: Path) -> str | None:
    """Return the range of kernels that the module in a folder is made for; None for any."""
    content = read_project(folder)
    if content:
        stated = content.get("tool", {}).get("amplifier", {}).get("requires_kernel")
        dependencies = content.get("project", {}).get("dependencies", [])
        return stated or required_by(dependencies)
    for metadata in sorted(folder.glob("*.dist-info/METADATA")):
        head = metadata.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        return required_by(re.findall(r"^Requires-Dist:\s*(.*)$", head, re.MULTILINE))
    return None


def required_by(requirements: Iterable[str]) -> str | None:
    """Return what a distribution requires of the kernel; None when any will do."""
    for requirement in requirements:
        found = _KERNEL.match(requirement)
        if found is not None:
            return found[1].strip()
    return None


def check_kernel(module_id: str, required: str | None) -> None:
    """Compare a range with the version of the contract that this kernel implements.

    Raises:
        KernelMismatchError: it is outside of the range.
        ModuleSourceError: the text is not a valid range.
    """
    if required in (None, f"=={kernel_version}"):
        return
    # Slow to import, and our own modules pin this very kernel.
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415

    try:
        accepted = SpecifierSet(required)
    except InvalidSpecifier as error:
        raise ModuleSourceError(
            f"`{module_id}` is not loaded: `{required}` is not a range of versions.",
            why="A range looks like `>=2,<3`.",
        ) from error
    # The label counts for a range that names one; any other range sees the contract's version.
    if not accepted.contains(kernel_version, prereleases=True):
        raise KernelMismatchError(module_id, required=required, contract=CONTRACT)
