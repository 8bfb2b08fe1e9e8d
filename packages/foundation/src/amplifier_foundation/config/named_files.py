"""The files of a project that one of its files names, in whatever place and way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_foundation.config.documents import parse_mapping, read_text
from amplifier_foundation.errors import TrustError

__all__ = ["named_in", "parts_of"]

# Rather one file too many than one too few: whatever could be a path is taken for one.
_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_MENTION = re.compile(r"@((?:[\w.-]+:)?[\w./~-]+)")
_VARIABLE = re.compile(r"\$\{\w+(?::([^}]*))?\}")
_PROSE = frozenset({"description", "instruction", "instructions", "prompt", "text", "why"})
# Of these keys a folder counts whole; elsewhere it is one to work in, and its content is no code.
_SOURCES = frozenset({"source", "sources", "orchestrator_source", "context_source"})
_CODE = _SOURCES | {"skills", "paths", "command", "args"}
_BUNDLES = frozenset({"bundle", "bundles", "added", "app", "includes"})
_ENDINGS = ("", ".md", ".yaml", ".yml", "/bundle.md", "/bundle.yaml", "/bundle.yml")
_MAX_CHARS = 1_000


class _Text(NamedTuple):
    text: str
    folders: bool
    whole_project: bool


def named_in(file: Path, project: Path) -> Iterator[Path]:
    """Yield the existing files and folders below `project` that `file` names.

    Nothing is expanded from the environment. A file that cannot be parsed names nothing; whoever
    would use it stumbles over it in the same way.
    """
    # Paths are meant from the file, from a root above it, or from the project.
    above = [each for each in file.parents if each.is_relative_to(project)]
    for found in _texts_of(file):
        for word in _words(found.text):
            for folder in above:
                yield from _existing(folder, word, found, project)


def parts_of(file: Path) -> tuple[dict[str, Any], str]:
    """Return the YAML and the text of a file; of one that cannot be parsed, nothing."""
    try:
        text = read_text(file, error=TrustError)
        body = ""
        if file.suffix == ".md":
            match = _FRONT_MATTER.match(text)
            text, body = (match[1], text[match.end() :]) if match else ("", text)
        return parse_mapping(text, where=str(file), error=TrustError), body
    except TrustError:
        return {}, ""


def _texts_of(file: Path) -> Iterator[_Text]:
    values, body = parts_of(file)
    for mention in _MENTION.findall(body):
        yield _Text(mention.rstrip(".-/"), folders=False, whole_project=False)
    yield from _strings(values, frozenset())


def _strings(value: Any, keys: frozenset[str]) -> Iterator[_Text]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            if key not in _PROSE:
                yield from _strings(each, keys | {key})
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _strings(each, keys)
    elif isinstance(value, str):
        code = bool(keys & _CODE)
        yield _Text(value, folders=code or bool(keys & _BUNDLES), whole_project=code)


def _words(text: str) -> Iterator[str]:
    """Yield what in a text may be a path: all of it, its words, each without a name before it."""
    if len(text) > _MAX_CHARS:
        return
    plain = _VARIABLE.sub(lambda match: match[1] or "", text).removeprefix("file://")
    for word in dict.fromkeys((plain, *plain.split())):
        path = word.partition("#")[0].removeprefix("@")
        yield path
        if ":" in path:
            yield path.partition(":")[2]


def _existing(folder: Path, word: str, found: _Text, project: Path) -> Iterator[Path]:
    if not word or "\0" in word:
        return
    for base in (folder, folder / "agents"):
        for ending in _ENDINGS:
            path = Path(f"{base / word}{ending}")
            if _is_inside(path, project) and (path.is_symlink() or path.is_file()):
                yield _plain(path)
    path = folder / word
    if found.folders and _is_inside(path, project) and path.is_dir():
        plain = _plain(path)
        if found.whole_project or not project.is_relative_to(plain):
            yield plain


def _is_inside(path: Path, project: Path) -> bool:
    try:
        return _plain(path).is_relative_to(project) and (path.is_symlink() or path.exists())
    except (OSError, RuntimeError):
        return False


def _plain(path: Path) -> Path:
    """Return the path without `..`, with its last part as it is: a link is held to what it says."""
    return path.parent.resolve() / path.name if path.name not in ("", "..") else path.resolve()
