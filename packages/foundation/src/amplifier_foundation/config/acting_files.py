"""Find everything in a project's folder that could act once it is trusted, with its digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amplifier_foundation.config.contents import UNVERIFIABLE, Contents

if TYPE_CHECKING:
    from amplifier_foundation.config.named_files import NameReader

__all__ = ["UNVERIFIABLE", "ActingFiles", "acting_files", "fingerprint", "fixed_files"]

_FOLDERS = (".amplifier",)
_FILES = (
    "AGENTS.md",
    "AMPLIFIER.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".cursorrules",
    ".github/copilot-instructions.md",
    ".mcp.json",
    "mcp.json",
    "amplifier.lock",
)
# Only these name further files, unless a file is named as a bundle; others are text for models.
_NAMES_FILES = (".md", ".yaml", ".yml", ".json")
# What is read of a document to find the files that it names.
_MAX_DOCUMENT = 1_000_000


class ActingFiles(NamedTuple):
    """The sha256 of each file by its path below the project, and why some cannot be trusted."""

    digests: dict[str, str]
    reasons: dict[str, str]


def acting_files(project: Path, home: Path, named: Iterable[Path] = ()) -> ActingFiles:
    """Return every file that could act, `named` ones included.

    These are `.amplifier`, files with instructions, definitions of servers, the lock, and all files
    of the project that these name: bundles, what they include, modules, scripts.
    """
    search = _Search(project, home)
    search.add([project / name for name in (*_FOLDERS, *_FILES)])
    search.add(named)
    return search.run()


def fixed_files(project: Path) -> list[str]:
    """Return which of the files and folders that always count exist."""
    return [name for name in (*_FOLDERS, *_FILES) if os.path.lexists(project / name)]


def fingerprint(files: dict[str, str]) -> str:
    """Return one sha256 for all files: their names and their contents."""
    lines = "".join(f"{digest} {name}\0" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


class _Search:
    """One walk over a project: what was found, and what is still to be read."""

    def __init__(self, project: Path, home: Path) -> None:
        self._project = project
        self._home = home
        self._contents = Contents(project, home)
        self._found = ActingFiles({}, {})
        self._waiting: list[tuple[Path, str]] = []
        self._read: set[Path] = set()
        self._reader: NameReader | None = None

    def add(self, paths: Iterable[Path], kind: str = "file") -> None:
        """Queue paths: a `document` is searched for names, `code` is not, a `file` may be."""
        self._waiting += [(path, kind) for path in paths]

    def run(self) -> ActingFiles:
        while self._waiting:
            path, kind = self._waiting.pop()
            for file in self._contents.files(path):
                self._take(file, kind)
        return self._found

    def _take(self, file: Path, kind: str) -> None:
        name = os.fspath(file.relative_to(self._project))
        reads = file not in self._read and self._names_files(file, kind)
        if name in self._found.digests and not reads:
            return
        taken = self._contents.take(file, keep=_MAX_DOCUMENT if reads else 0)
        if self._found.digests.setdefault(name, taken.digest) != taken.digest:
            # It changed between two reads.
            self._found.digests[name] = UNVERIFIABLE
        elif reads and taken.digest != UNVERIFIABLE:
            self._read.add(file)
            self._follow(file, name, taken.data)

    def _follow(self, file: Path, name: str, data: bytes) -> None:
        """Queue everything that a document names, and note why it cannot be trusted, if so."""
        if self._reader is None:
            # Imported here because most folders have nothing that could act.
            from amplifier_foundation.config.named_files import NameReader  # noqa: PLC0415

            self._reader = NameReader(self._project, self._home)
        named = self._reader.read(file, data)
        self.add(named.files)
        self.add(named.documents, "document")
        self.add(named.code, "code")
        if named.refused:
            self._found.digests[name] = UNVERIFIABLE
            self._found.reasons[name] = named.refused

    def _names_files(self, file: Path, kind: str) -> bool:
        if kind == "document":
            return True
        # Instructions at the top of a project go to a model unchanged; mentions are not followed.
        shown = file.parent == self._project and file.name in _FILES and file.suffix == ".md"
        return kind == "file" and file.suffix.lower() in _NAMES_FILES and not shown
