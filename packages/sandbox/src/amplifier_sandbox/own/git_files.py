"""The files of a folder that make git run programs: its configuration, hooks and what they name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Names in a `.git` folder, and what has no effect there: the bytes of a file, None for a folder.
_NAMES: dict[str, bytes | None] = {
    "config": b"",
    "config.worktree": b"",
    # It says where the configuration is; a dot is the folder itself.
    "commondir": b".\n",
    "hooks": None,
    "info": None,
    "modules": None,
}
_MOST_BYTES = 1_000_000
_MOST_FILES = 50
# Anything that could be read as a path to hooks or to more configuration; too many do no harm.
_NAMED = re.compile(r'(hookspath|path)[ \t]*=[ \t]*("(?:[^"\\\n]|\\.)*"|[^\n;#]*)', re.I)
_ESCAPE = re.compile(r"\\(.)")


class GitFile(NamedTuple):
    """A path, and what can be there without effect: the bytes of a file, None for a folder."""

    path: Path
    without_effect: bytes | None


def git_files(folder: Path) -> list[GitFile]:
    """Return what in `folder`, a real path, makes git run programs; it may be missing."""
    of_the_user = _configuration_of_the_user()
    repository = folder / ".git"
    found = {path: b"" for path in of_the_user if path.is_relative_to(folder)}
    found |= _files_of(repository)
    waiting = [*of_the_user, repository / "config", repository / "config.worktree"]
    seen: set[Path] = set()
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for is_hooks, named in _named_in(file, folder):
            if not is_hooks:
                waiting.append(named)
            if named != folder and named.is_relative_to(folder):
                found.setdefault(named, None if is_hooks else b"")
    return [GitFile(path, content) for path, content in found.items()]


def _files_of(repository: Path) -> dict[Path, bytes | None]:
    # Where we may not look, nothing that we start may either.
    if repository.is_symlink() or not os.path.exists(repository):  # noqa: PTH110 - never raises
        return {}
    if not repository.is_dir():
        # It says where the repository is.
        return {repository: b""}
    return {repository / name: content for name, content in _NAMES.items()}


def _configuration_of_the_user() -> list[Path]:
    configured = os.environ.get("GIT_CONFIG_GLOBAL")
    if configured:
        return [Path(os.path.realpath(configured))]
    home = Path("~").expanduser()
    base = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return [Path(os.path.realpath(each)) for each in (home / ".gitconfig", base / "git" / "config")]


def _named_in(file: Path, folder: Path) -> Iterator[tuple[bool, Path]]:
    """Yield the real paths that a file of configuration names, and whether they are of hooks."""
    try:
        with file.open("rb") as source:
            text = source.read(_MOST_BYTES).decode(errors="surrogateescape")
    except OSError:
        return
    for match in _NAMED.finditer(text):
        is_hooks = match[1].lower() == "hookspath"
        value = match[2].strip()
        if value.startswith('"'):
            value = _ESCAPE.sub(r"\1", value[1:-1])
        if not value or "\0" in value:
            continue
        if value.startswith("~/"):
            value = str(Path("~").expanduser() / value[2:])
        base = folder if is_hooks else file.parent
        yield is_hooks, Path(os.path.realpath(base / value))
