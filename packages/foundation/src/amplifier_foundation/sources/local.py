"""Resolve a path source on this machine, in the same way for trust and for the loader."""

from __future__ import annotations

import os
from pathlib import Path

from amplifier_foundation.sources.errors import SourceFormatError
from amplifier_foundation.sources.uri import Source

__all__ = ["local_path"]

_SHOWN_CHARS = 200


def local_path(source: Source, *folders: Path, within: Path | None = None) -> Path:
    """Return the real path of a path source, whether it exists or not.

    A relative path is resolved in the first of the folders that has it, else in the first one.
    With `within`, a path that is written to lead elsewhere is refused before the file system is
    asked: on a network mount, the question itself may reach the network.

    Raises:
        SourceFormatError: the path leads elsewhere, or cannot be resolved: too long, a loop of
            links, an unknown `~user`.
    """
    try:
        written = Path(source.location).expanduser()
        paths = [folder.resolve() / written for folder in folders]
        if within is not None:
            paths = [each for each in paths if _is_below(each, within.resolve())]
            if not paths:
                raise ValueError("It leads out of the project")
        found = next((each for each in paths if each.exists()), paths[0]).resolve()
        # From Python 3.13 on, `resolve` returns a loop of links unchanged instead of raising.
        if any(each.is_symlink() for each in (found, *found.parents)):
            raise ValueError("Its links lead in a circle")
        if within is not None and not found.is_relative_to(within.resolve()):
            raise ValueError("It leads out of the project")
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        text = source.location
        if len(text) <= _SHOWN_CHARS:
            shown = text
        else:
            shown = f"{text[:_SHOWN_CHARS]}..."
        raise SourceFormatError(f"`{shown}` cannot be followed.", why=f"{reason}.") from error
    return found


def _is_below(path: Path, folder: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(folder)
