"""The paths this process loads code, settings and keys from, which no tool of a session may change.

The sandbox mounts them read-only and the file tools refuse to write them. Both use the one list of
`own_paths`, so that no path is protected from one of them only.
"""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_sandbox.home import amplifier_home

# Names in a `.git` folder, with content that has no effect: the bytes of a file, None for a folder.
_NAMES: dict[str, bytes | None] = {
    "config": b"",
    "config.worktree": b"",
    # It names the folder with the configuration; a dot is the folder itself.
    "commondir": b".\n",
    "hooks": None,
    "info": None,
    "modules": None,
}
_MOST_BYTES = 1_000_000
_MOST_FILES = 50
# Anything that could be a path to hooks or to more configuration; false matches do no harm.
_NAMED = re.compile(r'(hookspath|path)[ \t]*=[ \t]*("(?:[^"\\\n]|\\.)*"|[^\n;#]*)', re.I)
_ESCAPE = re.compile(r"\\(.)")


class GitFile(NamedTuple):
    """A path, and content that has no effect there: the bytes of a file, None for a folder."""

    path: Path
    without_effect: bytes | None


def git_files(folder: Path) -> list[GitFile]:
    """Return the paths in `folder`, a real path, that can make git run programs, if they exist."""
    of_the_user = _configuration_of_the_user()
    # A repository above a workspace is given to a program without the folder that it is in.
    repository = folder if folder.name == ".git" else folder / ".git"
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
    # A folder that we may not read is out of reach for what we start, too.
    if repository.is_symlink() or not os.path.exists(repository):  # noqa: PTH110 - never raises
        return {}
    if not repository.is_dir():
        # A file that names the repository.
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
    """Yield the real paths that a configuration file names, and whether each is a hooks folder."""
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


# The code in a prefix, for a workspace that is itself inside one, as `/usr/src/project` is.
_CODE_OF_A_PREFIX = ("bin", "lib", "lib64", "Lib", "Scripts", "pyvenv.cfg")
# Libraries that the system's linker loads into this process and its children.
_LIBRARIES = (
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"),
    *("DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH"),
)
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class OwnPaths:
    """The paths of this program in a folder, all real; none is inside another of its list."""

    # Code and settings of this process.
    read_only: tuple[Path, ...] = ()
    # Keys, sessions and grants: AMPLIFIER_HOME.
    hidden: tuple[Path, ...] = ()
    # What makes git run programs, now or later.
    git: tuple[GitFile, ...] = ()
    # Symbolic links on the way to our own paths; replacing one would make us load other code.
    links: tuple[Path, ...] = ()
    # The path of this program that the folder itself is in.
    around: Path | None = None


def own_paths(folder: Path) -> OwnPaths:
    """Return the paths of this program inside `folder`, or around it."""
    # Texts until the few paths that matter are found: this runs before every command.
    base = os.path.realpath(folder)
    links: set[str] = set()
    code = _finals(_code_paths(Path(base)), links)
    hidden = _finals([str(amplifier_home())], links)
    around = next((path for path in (*code, *hidden) if _is_in(base, path)), None)
    hidden_inside = _outermost(path for path in hidden if _is_inside(path, base))
    read_only = _outermost(
        path for path in code if _is_inside(path, base) and not _is_in_any(path, hidden_inside)
    )
    held = (*read_only, *hidden_inside)
    return OwnPaths(
        tuple(map(Path, read_only)),
        tuple(map(Path, hidden_inside)),
        tuple(file for file in git_files(Path(base)) if not _is_in_any(str(file.path), held)),
        tuple(
            Path(link)
            for link in sorted(links)
            if _is_inside(link, base) and not _is_in_any(link, held)
        ),
        None if around is None else Path(around),
    )


def hidden_paths() -> tuple[Path, ...]:
    """Return the real paths that no tool may read, wherever they are."""
    return tuple(map(Path, _finals([str(amplifier_home())], set())))


def path_and_links(path: str) -> tuple[Path, list[Path]]:
    """Return the real path of `path`, and where each symbolic link on the way to it is.

    Parts that do not exist are kept as they are.
    """
    real, links = _follow(path, _target_of)
    return Path(real), [Path(link) for link in links]


def _follow(path: str, target_of: Callable[[str], str | None]) -> tuple[str, list[str]]:
    rest = list(reversed(os.path.abspath(path).split("/")))  # noqa: PTH100 - keeps links
    real = ""
    links: list[str] = []
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            real = real.rpartition("/")[0]
            continue
        place = f"{real}/{part}"
        target = target_of(place)
        if target is None:
            real = place
            continue
        links.append(place)
        if len(links) > _MOST_LINKS:
            return place, links
        if target.startswith("/"):
            real = ""
        rest += reversed(target.split("/"))
    return real or "/", links


def _target_of(place: str) -> str | None:
    """Return what a symbolic link names; None if there is no link."""
    try:
        return os.readlink(place)  # noqa: PTH115 - a text, see `own_paths`
    except (OSError, ValueError):
        return None


def _finals(paths: Iterable[str], links: set[str]) -> list[str]:
    """Return the real paths; the links on the way are added to `links`."""
    # Most of the paths begin alike.
    target_of = cache(_target_of)
    finals: list[str] = []
    for path in dict.fromkeys(paths):
        if not path or "\0" in path:
            continue
        final, passed = _follow(path, target_of)
        finals.append(final)
        links.update(passed)
    return finals


def _code_paths(base: Path) -> Iterator[str]:
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        if base.is_relative_to(os.path.realpath(prefix)):
            yield from (os.path.join(prefix, name) for name in _CODE_OF_A_PREFIX)  # noqa: PTH118
        else:
            yield prefix
    yield sys.executable
    # An empty entry is the current folder.
    yield from (entry or "." for entry in sys.path)
    if sys.pycache_prefix:
        yield sys.pycache_prefix
    yield site.getusersitepackages()
    for name in _LIBRARIES:
        yield from os.environ.get(name, "").replace(":", " ").split()
    yield from _editable_packages()
    yield from _loaded_files(base)


def _editable_packages() -> Iterator[str]:
    """Yield the folders of packages that an import hook finds, as editable installs add them."""
    for finder in sys.meta_path:
        module = sys.modules.get(getattr(finder, "__module__", ""))
        mapping: Any = getattr(module, "MAPPING", None)
        if isinstance(mapping, dict):
            yield from (
                each for each in cast("dict[Any, Any]", mapping).values() if isinstance(each, str)
            )


def _loaded_files(base: Path) -> Iterator[str]:
    """Yield the packages and files below `base` that are loaded, by whatever means."""
    start = f"{base}{os.sep}"
    # `copy` is atomic. A list of the items is not, and fails if another thread imports meanwhile.
    for name, module in sys.modules.copy().items():
        file: Any = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.startswith(start):
            continue
        is_package = hasattr(module, "__path__")
        if is_package and "." not in name:
            yield os.path.dirname(file)  # noqa: PTH120 - thousands of modules
        else:
            yield file


def _is_in(path: str, folder: str) -> bool:
    """Whether `folder` is `path` or a folder above it; both are absolute."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_inside(path: str, base: str) -> bool:
    return path != base and _is_in(path, base)


def _is_in_any(path: str, folders: Iterable[str]) -> bool:
    return any(_is_in(path, folder) for folder in folders)


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    # A folder comes before what is inside of it.
    for path in sorted(set(paths)):
        if not _is_in_any(path, kept):
            kept.append(path)
    return tuple(kept)
