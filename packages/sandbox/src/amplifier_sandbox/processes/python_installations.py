"""Python's virtual environments in a project, and the installations they were made from."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

__all__ = ["environments_in", "interpreters_of", "is_python_installation", "nearest_environments"]

_NAMES = (".venv", "venv", "env")
_NOT_SEARCHED = frozenset({"__pycache__", "build", "dist", "node_modules", "target", "vendor"})
_DEPTH = 2
_MOST_FOLDERS = 300
_MOST_BYTES = 10_000


def nearest_environments(folder: Path) -> list[Path]:
    """Return where the virtual environments of a folder usually are; they may not exist."""
    return [folder / name for name in _NAMES]


def environments_in(folder: Path) -> list[Path]:
    """Return the virtual environments of a project and of its packages, a few folders deep."""
    found: list[Path] = []
    waiting = deque([(str(folder), 0)])
    searched = 0
    while waiting and searched < _MOST_FOLDERS:
        place, depth = waiting.popleft()
        searched += 1
        found += [each for each in nearest_environments(Path(place)) if _is_file(each)]
        if depth < _DEPTH:
            waiting += [(path, depth + 1) for path in _subfolders(place)]
    return found


def _is_file(environment: Path) -> bool:
    return os.path.isfile(environment / "pyvenv.cfg")  # noqa: PTH113 - false where we may not look


def _subfolders(place: str) -> list[str]:
    try:
        return [
            entry.path
            for entry in os.scandir(place)
            if not entry.name.startswith(".")
            and entry.name not in _NOT_SEARCHED
            and entry.name not in _NAMES
            and entry.is_dir(follow_symlinks=False)
        ]
    except OSError:
        return []


def interpreters_of(environment: Path) -> Iterator[Path]:
    """Yield the paths of the interpreter that an environment names; they may not exist."""
    try:
        with (environment / "pyvenv.cfg").open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return
    yield environment / "bin" / "python"
    for line in text.splitlines():
        name, _, value = line.partition("=")
        base = value.strip()
        if name.strip() == "home" and base.startswith("/") and "\0" not in base:
            yield Path(base, "python3")


def is_python_installation(prefix: Path) -> bool:
    """Whether a folder has the standard library of Python where an interpreter looks for it."""
    try:
        return any((prefix / "lib").glob("py*3*/os.py"))
    except OSError:
        return False
