"""Everything in a project's folder that could act once it is trusted, by its content."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from amplifier_foundation.config.plain_files import open_plain
from amplifier_foundation.errors import TrustError

__all__ = ["UNVERIFIABLE", "acting_files", "fingerprint"]

# Of what cannot be held to its content: a link to a folder, a device, what cannot be read.
UNVERIFIABLE = "cannot be verified"

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
# Only these name further files that would act; the rest is read by models, or run as it is.
_NAMES_FILES = (".md", ".yaml", ".yml", ".json")
_MAX_FILES = 5_000
_MAX_BYTES = 100_000_000


def acting_files(project: Path, home: Path, named: Iterable[Path] = ()) -> dict[str, str]:
    """Return the sha256 of each file by its path below the project, `named` ones included.

    These are `.amplifier`, files with instructions, definitions of servers, the lock, and whatever
    of the project these name: bundles, what they include, modules, scripts.
    """
    return _Search(project, home).run([project / name for name in (*_FOLDERS, *_FILES)], named)


def fingerprint(files: dict[str, str]) -> str:
    """Return one sha256 for all files: their names and their contents."""
    lines = "".join(f"{digest} {name}\0" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


class _Search:
    """One walk over a project: what was found, and how much may still be read."""

    def __init__(self, project: Path, home: Path) -> None:
        self._project = project
        self._home = home.resolve()
        self._found: dict[str, str] = {}
        self._bytes = 0

    def run(self, fixed: list[Path], named: Iterable[Path]) -> dict[str, str]:
        waiting = [*fixed, *named]
        while waiting:
            for path in self._files_in(waiting.pop()):
                name = os.fspath(path.relative_to(self._project))
                if name in self._found:
                    continue
                self._found[name] = self._digest(path)
                if self._names_files(path):
                    waiting.extend(self._named_in(path))
        return self._found

    def _named_in(self, path: Path) -> Iterator[Path]:
        # Most folders have nothing that could act, and do not pay for this.
        from amplifier_foundation.config.named_files import named_in  # noqa: PLC0415

        return named_in(path, self._project)

    def _names_files(self, path: Path) -> bool:
        # Instructions at the top of a project are shown to a model as they are.
        shown = path.parent == self._project and path.name in _FILES and path.suffix == ".md"
        return path.suffix in _NAMES_FILES and not shown

    def _files_in(self, path: Path) -> Iterator[Path]:
        """Yield a file, or those of a folder and the folders in it; links are not followed."""
        try:
            mode = path.lstat().st_mode
        except (OSError, ValueError):
            return
        if not stat.S_ISDIR(mode):
            yield path
        # The person's own folder may lie in a project; what is in it is not the project's.
        elif path.name != ".git" and path.resolve() != self._home:
            for entry in sorted(path.iterdir()):
                yield from self._files_in(entry)

    def _digest(self, path: Path) -> str:
        if len(self._found) >= _MAX_FILES or self._bytes > _MAX_BYTES:
            raise TrustError(
                f"`{self._project}` is too large to be trusted.",
                why=f"More than {_MAX_FILES:,} files, or {_MAX_BYTES:,} bytes, could act.",
            )
        if not path.is_symlink():
            return self._content(path)
        target = path.resolve()
        content = self._content(target)
        if content == UNVERIFIABLE:
            return UNVERIFIABLE
        return hashlib.sha256(f"{path.readlink()}\0{content}".encode()).hexdigest()

    def _content(self, path: Path) -> str:
        digest = hashlib.sha256()
        try:
            with open_plain(path) as file:
                while block := file.read(1 << 20):
                    digest.update(block)
                    self._bytes += len(block)
                    if self._bytes > _MAX_BYTES:
                        return UNVERIFIABLE
        except OSError:
            return UNVERIFIABLE
        return digest.hexdigest()
