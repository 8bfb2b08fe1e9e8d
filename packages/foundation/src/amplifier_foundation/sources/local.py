"""Where on this machine a source leads; trust and the loader both ask here."""

from __future__ import annotations

import os
from pathlib import Path

from amplifier_foundation.sources.errors import SourceFormatError
from amplifier_foundation.sources.uri import Source

__all__ = ["local_path"]

_SHOWN_CHARS = 200


def local_path(source: Source, *folders: Path, within: Path | None = None) -> Path:
    """Return the real path that a path source means, whether something is there or not.

    A relative one is meant from the first of the folders in which it is there, else from the first.
    With `within`, a path that is written to lead elsewhere is refused before it is looked at: to
    ask a file system whether it has a path may already reach the network.

    Raises:
        SourceFormatError: the path leads elsewhere, or cannot be followed: too long, a loop of
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
        # Since Python 3.13, `resolve` returns a loop of links as it is.
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
