"""The cache: what was fetched, each under the hash of its content, there whole or not at all."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from amplifier_foundation.sources.content import IGNORED, content_hash
from amplifier_kit.durable_files import make_private_folder

__all__ = ["Cache", "bare_hash"]

_UNFINISHED = ".fetching-"
_ABANDONED_SECONDS = 24 * 3600


class Cache:
    """A folder of folders named by sha256; any number of processes may fill it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def entry(self, sha256: str) -> Path:
        """Return where the content of that hash is, or would be."""
        return self.folder / sha256

    def hash_of(self, sha256: str) -> str | None:
        """Return the hash that an entry has now, or None when there is no entry."""
        entry = self.entry(sha256)
        if entry.is_dir():
            return bare_hash(entry)
        return None

    @contextmanager
    def workspace(self) -> Generator[Path]:
        """Give a folder to fetch into, on the cache's file system; it is gone afterwards."""
        make_private_folder(self.folder)
        self._remove_abandoned()
        folder = self.folder / f"{_UNFINISHED}{os.urandom(8).hex()}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            _remove(folder)

    def keep(self, tree: Path, sha256: str) -> Path:
        """Move a tree out of a workspace into the cache; the first of several fetchers wins."""
        entry = self.entry(sha256)
        try:
            tree.rename(entry)
        except OSError:
            if not entry.is_dir():
                raise
        else:
            _protect(entry)
        return entry

    def discard(self, sha256: str) -> None:
        """Remove an entry, so that it is fetched again."""
        with self.workspace() as folder, suppress(FileNotFoundError):
            # A protected folder cannot be moved; and it is moved so that nobody finds half of it.
            self.entry(sha256).chmod(0o700)
            self.entry(sha256).rename(folder / "discarded")

    def _remove_abandoned(self) -> None:
        """Remove what a process left that was killed while it fetched."""
        oldest = time.time() - _ABANDONED_SECONDS
        for folder in self.folder.glob(f"{_UNFINISHED}*"):
            with suppress(FileNotFoundError):
                if folder.stat().st_mtime < oldest:
                    _remove(folder)


def bare_hash(tree: Path) -> str:
    """Remove what a content hash does not cover, then return the hash.

    Left there, bytecode would be run in place of the source that is hashed.
    """
    for name in IGNORED:
        for uncovered in list(tree.rglob(name)):
            _remove(uncovered)
    return content_hash(tree)


def _protect(entry: Path) -> None:
    """Take the right to write away: Python leaves no bytecode, and nobody edits by mistake."""
    for parent, _, names in os.walk(entry, topdown=False):
        for name in names:
            # Following a link, this would change a file elsewhere.
            if not (Path(parent) / name).is_symlink():
                (Path(parent) / name).chmod(0o444)
        Path(parent).chmod(0o555)


def _remove(path: Path) -> None:
    """Remove a file or a folder, though it be protected; somebody else may be removing it too."""
    with suppress(FileNotFoundError):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            return
        for parent, _, _ in os.walk(path):
            Path(parent).chmod(0o700)
        shutil.rmtree(path)
