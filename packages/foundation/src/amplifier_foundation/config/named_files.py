"""The files of a project that one of its files names.

Sources of modules are read exactly as the loader reads them. Any other text that could be a path
is treated as one: a file too many on the list does no harm, and a file that is not on the list is
refused when it is about to be used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_foundation import paths
from amplifier_foundation.config.documents import (
    decode,
    parse_document,
    parse_mapping,
    read_text,
)
from amplifier_foundation.config.written_sources import (
    SourceOrigin,
    mappings_in,
    origin_of,
    path_sources,
    with_absolute_sources,
)
from amplifier_foundation.errors import TrustError
from amplifier_sandbox.processes.python_search import searches_folder

_RUNS_SCRIPTS = re.compile(
    r"(?:.*/)?(?:(?:python|pypy)[0-9.]*|node|deno|bun|ruby|perl|php|sh|bash|dash|zsh)"
)


def unlisted_code(values: Any) -> str:
    """Return why a project's servers cannot be trusted as they are written, or an empty text.

    `python -m name` looks for `name`, and like `python -c` for all that it imports, in the folder
    that it is started in; a file that is added there later would run.
    """
    for name, server in servers_in(values):
        if searches_folder(command_of(server)):
            return f"The server `{name}` has Python search this folder for code (use `python -P`)."
    return ""


def servers_in(values: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every server with a command, at whatever depth, with its name."""
    for entry in mappings_in(values):
        for name, server in _mapping(entry.get("servers")).items():
            if _mapping(server).get("command"):
                yield name, _mapping(server)


def command_of(server: dict[str, Any]) -> list[str]:
    """Return the command of a server with its arguments."""
    arguments: Any = server.get("args")
    if isinstance(arguments, list):
        given = cast("list[Any]", arguments)
    else:
        given = []
    return [str(part) for part in (server["command"], *given)]


def script_of(command: list[str]) -> str | None:
    """Return the file whose code a command runs: the script of an interpreter, or the command."""
    if _RUNS_SCRIPTS.fullmatch(command[0]):
        return next((part for part in command[1:] if not part.startswith("-")), None)
    if "/" in command[0]:
        return command[0]
    return None


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {}


_MENTION = re.compile(r"@([\w./~:-]+)")
# A default has no `$`, so that a text full of `${A:` is searched in linear time.
_VARIABLE = re.compile(r"\$\{\w+(?::([^}$]*))?\}")
_PROSE = frozenset({"description", "instruction", "instructions", "prompt", "text", "why"})
# Below these keys, all files of a folder count; elsewhere a folder is a place to work in, not code.
_CODE = frozenset({"source", "skills", "paths", "command", "args", "cwd"})
_BUNDLES = frozenset({"bundle", "bundles", "added", "app", "includes"})
_ENDINGS = ("", ".md", ".yaml", ".yml", "/bundle.md", "/bundle.yaml", "/bundle.yml")
_STEMS = (".md", ".yaml", ".yml")
# A longer path cannot be opened; of a longer text, only the words are tried.
_MAX_CHARS = 4_096
_MAX_PARSED = 1_000_000
_MAX_LOOKUPS = 20_000
_MAX_ABOVE = 32


class Named(NamedTuple):
    """What a file names: `documents` name further files, `code` does not, `files` may.

    `refused` says why the file cannot be trusted as it is, if it cannot.
    """

    files: tuple[Path, ...] = ()
    documents: tuple[Path, ...] = ()
    code: tuple[Path, ...] = ()
    refused: str = ""


class _Text(NamedTuple):
    """A text that may be a path; the flags say what else than a file it may lead to."""

    text: str
    folders: bool = False
    whole_project: bool = False
    is_document: bool = False


class NameReader:
    """Reads the documents of one project; the limits apply to all of them together."""

    def __init__(self, project: Path, home: Path) -> None:
        self._project = project
        self._home = home
        self._parsed = 0
        self._lookups = 0
        self._names: dict[Path, frozenset[str]] = {}

    def read(self, file: Path, data: bytes) -> Named:
        """Return what a document names.

        One that cannot be parsed names nothing: its reader parses it in the same way, and fails.
        """
        self._parsed += len(data)
        if self._parsed > _MAX_PARSED:
            return Named(refused=f"More than {_MAX_PARSED:,} bytes of settings and texts.")
        try:
            values, body = _parse(file, data, self._project)
        except TrustError:
            return Named()
        try:
            sources = self._sources(file, values)
        except TrustError as error:
            return Named(refused=f"{error.message} {error.why}")
        code = unlisted_code(values)
        if code:
            return Named(refused=code)
        found = [*_strings(values)]
        # Mentions lead to files only, which are shown to a model as text.
        found += [_Text(each.rstrip(".-/")) for each in _MENTION.findall(body)]
        existing = list(self._existing(file, found))
        if self._lookups > _MAX_LOOKUPS:
            return Named(refused="It names too many files.")
        documents = (path for path, text in existing if text.is_document and not path.is_dir())
        return Named(tuple(path for path, _ in existing), tuple(documents), tuple(sources))

    def _sources(self, file: Path, values: dict[str, Any]) -> Iterator[Path]:
        """Return the folders of the project from which modules would be loaded."""
        found = path_sources(with_absolute_sources(values, self._origin(file)))
        return (path for path in list(found) if path.is_relative_to(self._project))

    def _origin(self, file: Path) -> SourceOrigin:
        if file in (paths.project_settings(self._project), paths.local_settings(self._project)):
            return SourceOrigin(file, (self._project,), self._home, self._project)
        # The loader follows links: sources are relative to the real file.
        real = file.resolve()
        if real.is_relative_to(self._project):
            inside = self._project
        else:
            inside = None
        return origin_of(real, self._home, inside)

    def _existing(self, file: Path, found: Iterable[_Text]) -> Iterator[tuple[Path, _Text]]:
        """Yield every existing path that a text may mean, relative to each folder above."""
        words: dict[str, dict[_Text, None]] = {}
        for text in found:
            for word in _words(text.text):
                same_start = words.setdefault(word.partition("/")[0], {})
                same_start[text._replace(text=word)] = None
        above = [each for each in file.parents if each.is_relative_to(self._project)]
        for folder in dict.fromkeys((*above[:_MAX_ABOVE], self._project)):
            # Filtered by first name: trying every word takes minutes for a file of a megabyte.
            for first in self._names_in(folder) & words.keys():
                for text in words[first]:
                    for path in self._at(folder, text):
                        yield path, text

    def _at(self, folder: Path, text: _Text) -> Iterator[Path]:
        self._lookups += 1
        if self._lookups > _MAX_LOOKUPS:
            return
        for base in (folder, folder / "agents"):
            for ending in _ENDINGS:
                path = self._plain(Path(f"{base / text.text}{ending}"))
                if path is not None and (path.is_symlink() or path.is_file()):
                    yield path
        path = self._plain(folder / text.text) if text.folders else None
        if path is None or not path.is_dir():
            return
        if text.whole_project or not self._project.is_relative_to(path):
            yield path

    def _names_in(self, folder: Path) -> frozenset[str]:
        """Return the first names that an existing path relative to a folder can have."""
        if folder not in self._names:
            names = {"", ".", "..", "agents"}
            for each in (folder, folder / "agents"):
                try:
                    names.update(path.name for path in each.iterdir())
                except OSError:
                    continue
            stems = {name.removesuffix(end) for name in names for end in _STEMS}
            self._names[folder] = frozenset(names | stems)
        return self._names[folder]

    def _plain(self, path: Path) -> Path | None:
        """Return an existing path of the project without `..`, or None.

        Its last part is not resolved: a link is listed itself, with its target and its content.
        """
        # Paths outside of the project are not touched, and absent ones not resolved.
        if not path.is_relative_to(self._project) or not os.path.lexists(path):
            return None
        try:
            last = path.name not in ("", "..")
            if last:
                plain = path.parent.resolve() / path.name
            else:
                plain = path.resolve()
            is_there = plain.is_relative_to(self._project) and os.path.lexists(plain)
        except (OSError, RuntimeError, ValueError):
            return None
        return plain if is_there else None


def parts_of(file: Path) -> tuple[dict[str, Any], str]:
    """Return the YAML and the text of a file; both are empty if it cannot be parsed."""
    try:
        return parse_document(file, read_text(file, error=TrustError), error=TrustError)
    except TrustError:
        return {}, ""


def _parse(file: Path, data: bytes, project: Path) -> tuple[dict[str, Any], str]:
    text = decode(data, where=str(file), error=TrustError)
    if file in (paths.project_settings(project), paths.local_settings(project)):
        return parse_mapping(text, where=str(file), error=TrustError), ""
    return parse_document(file, text, error=TrustError)


def _strings(values: dict[str, Any]) -> Iterator[_Text]:
    """Yield every text that may be a path, except sources of modules (see `_sources`)."""
    waiting: list[tuple[Any, frozenset[str]]] = [(values, frozenset())]
    while waiting:
        value, keys = waiting.pop()
        if isinstance(value, dict):
            entry = cast("dict[str, Any]", value)
            for key, each in entry.items():
                if key not in _PROSE and not _is_source(key, entry, keys):
                    waiting.append((each, keys | {key}))
        elif isinstance(value, list):
            waiting += [(each, keys) for each in cast("list[Any]", value)]
        elif isinstance(value, str):
            code = bool(keys & _CODE)
            folders = code or bool(keys & _BUNDLES)
            yield _Text(value, folders, whole_project=code, is_document=not code)


def _is_source(key: str, entry: dict[str, Any], above: frozenset[str]) -> bool:
    if key == "source":
        return "module" in entry
    if key == "modules":
        return "sources" in above
    return key in ("orchestrator_source", "context_source")


def _words(text: str) -> Iterator[str]:
    """Yield what may be a path: the whole text and its words, each also without `name:`."""
    plain = _VARIABLE.sub(lambda match: match[1] or "", text).removeprefix("file://")
    whole = [] if len(plain) > _MAX_CHARS else [plain]
    for word in dict.fromkeys((*whole, *plain.split())):
        path = word.partition("#")[0].removeprefix("@")
        for each in (path, path.partition(":")[2]):
            if each and len(each) <= _MAX_CHARS and "\0" not in each:
                yield each.removeprefix("./")
