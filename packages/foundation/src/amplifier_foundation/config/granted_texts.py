"""Read a project's texts, and compare them with the content that the user decided about."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from amplifier_foundation.config.contents import link_digest
from amplifier_foundation.config.documents import decode, read_bytes
from amplifier_foundation.errors import FoundationError, TrustError

__all__ = ["leads_to", "read_granted"]


def read_granted(
    path: Path, project: Path, digests: Mapping[str, str], *, error: type[FoundationError]
) -> str:
    """Return the text of a file after comparing it with its digest, if there is one.

    Raises:
        TrustError: its content is not what was decided about.
    """
    # Read once: the bytes that are compared are the bytes that are used.
    data = read_bytes(path, error=error)
    text = decode(data, where=str(path), error=error)
    content = hashlib.sha256(data).hexdigest()
    granted = [name for name in digests if leads_to(project / name, path)]
    if granted and not any(_digest(project / name, content) == digests[name] for name in granted):
        raise TrustError(
            f"`{path}` was not read.", why="It is changing at this moment.", fix="amplifier trust"
        )
    return text


def leads_to(named: Path, path: Path) -> bool:
    """Return whether a listed name of the project, which may be a link, is this file."""
    # Compared by name first: resolving every listed path costs system calls.
    if named.name != path.name and not named.is_symlink():
        return False
    return named.resolve() == path.resolve()


def _digest(path: Path, content: str) -> str:
    if path.is_symlink():
        return link_digest(path, content)
    return content
