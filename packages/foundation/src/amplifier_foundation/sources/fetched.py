"""The cache of fetched git commits and archives, keyed by the hash of their content."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from amplifier_foundation.sources.content import IGNORED, content_hash
from amplifier_foundation.sources.errors import DriftError
from amplifier_foundation.sources.fetch import Limits, ProgressListener, Watch
from amplifier_foundation.sources.lock import Pin
from amplifier_foundation.sources.uri import Source
from amplifier_kit.durable_files import make_private_folder

_UNFINISHED = ".fetching-"
# Far longer than a fetch may take, so that no running one loses its folder.
_ABANDONED_SECONDS = 24 * 3600


class Cache:
    """A folder of folders named by sha256, which processes may fill in parallel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def entry(self, sha256: str) -> Path:
        """Return the folder for the content of that hash, whether it exists or not."""
        return self.folder / sha256

    def hash_of(self, sha256: str) -> str | None:
        """Return the current hash of an entry, or None if there is no entry."""
        entry = self.entry(sha256)
        if entry.is_dir():
            return bare_hash(entry)
        return None

    @contextmanager
    def workspace(self) -> Generator[Path]:
        """Yield a temporary folder on the cache's file system, from which `keep` can rename."""
        make_private_folder(self.folder)
        self._remove_abandoned()
        folder = self.folder / f"{_UNFINISHED}{os.urandom(8).hex()}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            _remove(folder)

    def keep(self, tree: Path, sha256: str) -> Path:
        """Move a tree from a workspace into the cache; the first of several processes wins."""
        entry = self.entry(sha256)
        try:
            tree.rename(entry)
        except OSError:
            # Another process was faster, and its entry has the same content.
            if not entry.is_dir():
                raise
        else:
            _protect(entry)
        return entry

    def discard(self, sha256: str) -> None:
        """Remove an entry, so that it is fetched again."""
        with self.workspace() as folder, suppress(FileNotFoundError):
            # A read-only folder cannot be moved; it is moved so that nobody finds half of it.
            self.entry(sha256).chmod(0o700)
            self.entry(sha256).rename(folder / "discarded")

    def _remove_abandoned(self) -> None:
        """Remove what killed processes left of their fetches."""
        oldest = time.time() - _ABANDONED_SECONDS
        for folder in self.folder.glob(f"{_UNFINISHED}*"):
            with suppress(FileNotFoundError):
                if folder.stat().st_mtime < oldest:
                    _remove(folder)


def bare_hash(tree: Path) -> str:
    """Remove what a content hash does not cover, then return the hash.

    Otherwise Python would run planted bytecode instead of the source that is hashed.
    """
    for name in IGNORED:
        for uncovered in list(tree.rglob(name)):
            _remove(uncovered)
    return content_hash(tree)


def _protect(entry: Path) -> None:
    """Make an entry read-only: Python adds no bytecode, and nobody edits it by mistake."""
    for parent, _, names in os.walk(entry, topdown=False):
        for name in names:
            # `chmod` follows links, and would change a file elsewhere.
            if not (Path(parent) / name).is_symlink():
                (Path(parent) / name).chmod(0o444)
        Path(parent).chmod(0o555)


def _remove(path: Path) -> None:
    """Remove a file or folder, read-only or not; another process may be removing it too."""
    with suppress(FileNotFoundError):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            return
        for parent, _, _ in os.walk(path):
            Path(parent).chmod(0o700)
        shutil.rmtree(path)


class Tree(NamedTuple):
    """All files of a repository or an archive, not only those of the source's subdirectory."""

    path: Path
    sha256: str
    commit: str | None


class FetchedSources:
    """Fetches each source once, into the cache, within limits."""

    def __init__(self, cache: Cache, limits: Limits, progress: ProgressListener | None) -> None:
        self.cache = cache
        self._limits = limits
        self._progress = progress
        self._newest: dict[Source, Tree] = {}

    def pinned(self, name: str, source: Source, pin: Pin) -> Tree:
        """Return the content that is pinned, from the cache or fetched.

        Raises:
            DriftError: the cache or the source has another content.
        """
        found = self.cache.hash_of(pin.sha256)
        if found is None:
            return self._fetch(source, pin.commit, pinned=(name, pin.sha256))
        if found != pin.sha256:
            raise DriftError(name, "content in the cache", expected=pin.sha256, found=found)
        return Tree(self.cache.entry(pin.sha256), pin.sha256, pin.commit)

    def restored(self, source: Source, pin: Pin) -> Tree:
        """Return the content of a pin's commit, fetched again if the cache does not have it."""
        if self.cache.hash_of(pin.sha256) == pin.sha256:
            return Tree(self.cache.entry(pin.sha256), pin.sha256, pin.commit)
        return self._fetch(source, pin.commit)

    def newest(self, source: Source) -> Tree:
        """Return the current content; all modules of one repository get the same commit."""
        whole = source._replace(subdirectory="")
        if whole not in self._newest:
            self._newest[whole] = self._fetch(source, source.commit)
        return self._newest[whole]

    def _fetch(
        self, source: Source, commit: str | None, pinned: tuple[str, str] | None = None
    ) -> Tree:
        watch = Watch(str(source._replace(subdirectory="")), self._limits, self._progress)
        with self.cache.workspace() as workspace:
            try:
                if source.kind == "git":
                    commit = _fetch_git(workspace, source, commit, watch)
                else:
                    _fetch_zip(workspace, source, pinned, watch)
            finally:
                watch.ended()
            found = bare_hash(workspace / "tree")
            _require_pinned(found, pinned)
            # A damaged entry is replaced by what was just fetched.
            if self.cache.hash_of(found) not in (None, found):
                self.cache.discard(found)
            return Tree(self.cache.keep(workspace / "tree", found), found, commit)


# Imported here because most runs fetch nothing, and need neither processes nor the network.
def _fetch_git(workspace: Path, source: Source, commit: str | None, watch: Watch) -> str:
    from amplifier_foundation.sources.git import fetch_commit  # noqa: PLC0415

    return fetch_commit(source, commit, workspace, watch)


def _fetch_zip(
    workspace: Path, source: Source, pinned: tuple[str, str] | None, watch: Watch
) -> None:
    from amplifier_foundation.sources.archive import fetch_archive  # noqa: PLC0415

    found = fetch_archive(source, workspace, watch, None if pinned is None else pinned[1])
    if found is not None:
        _require_pinned(found, pinned)


def _require_pinned(found: str, pinned: tuple[str, str] | None) -> None:
    if pinned is not None and found != pinned[1]:
        raise DriftError(pinned[0], "content", expected=pinned[1], found=found)
