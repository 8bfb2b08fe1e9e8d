"""What a folder that an instruction mentions is shown as: the names in it."""

from __future__ import annotations

import os
from pathlib import Path

from amplifier_foundation.config.project_files import is_of_project, may_act
from amplifier_foundation.settings import Settings

__all__ = ["folder_listing"]

_MOST_NAMES = 500
_HIDDEN = frozenset({".git", "__pycache__"})


def folder_listing(folder: Path, settings: Settings) -> str:
    """Return the names in a folder, one per line, folders first and with a slash.

    Of a project's folder only those are named that the user decided about: a name is text for a
    model too.

    Raises:
        OSError: it cannot be read.
    """
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in _HIDDEN:
                continue
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                if _may_be_named(path, settings):
                    folders.append(f"{entry.name}/")
            elif may_act(path, settings):
                files.append(entry.name)
    names = [*sorted(folders), *sorted(files)]
    shown = [f"- {name}" for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        shown.append(f"- and {len(names) - _MOST_NAMES:,} more")
    return "\n".join(["Folder with:", "", *(shown or ["- nothing"])])


def _may_be_named(folder: Path, settings: Settings) -> bool:
    """Tell whether a folder is not the project's, or has a file that the user decided about."""
    if not is_of_project(folder, settings):
        return True
    if not settings.trusted:
        return False
    if settings.acting is None:
        return True
    real = folder.resolve()
    return any((settings.project / name).resolve().is_relative_to(real) for name in settings.acting)
