"""What a confined program sees of the file system: the policy that every sandbox enforces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class VisiblePaths:
    """Real paths; of two that overlap, the later one in this list decides."""

    # Installations of the user, read-only; one may be gone.
    toolchains: Sequence[Path]
    # Symbolic links to create, with what each has in it.
    links: Sequence[tuple[Path, str]]
    read_only: Sequence[Path]
    # The folder that the program works in, and others that it can write to.
    workspace: Path
    writable: Sequence[Path]
    # Existing paths in the workspace that stay read-only.
    protected: Sequence[Path]
    # The folders above them, which cannot be moved: the path would move with them.
    above_protected: Sequence[Path]
    # Existing paths that appear empty.
    hidden: Sequence[Path]
