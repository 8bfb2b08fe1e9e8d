"""What was fetched: git commits and archives, each in the cache by the hash of its content."""

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
from amplifier_foundation.sources.fetching import Limits, ProgressListener, Watch
from amplifier_foundation.sources.lock import Pin
from amplifier_foundation.sources.uri import Source
from amplifier_kit.durable_files import make_private_folder

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


class Tree(NamedTuple):
    """All files of a repository or an archive; the source's subdirectory is a part of it."""

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
            DriftError: what is in the cache, or what the source gives, is something else.
        """
        found = self.cache.hash_of(pin.sha256)
        if found is None:
            return self._fetch(source, pin.commit, pinned=(name, pin.sha256))
        if found != pin.sha256:
            raise DriftError(name, "content in the cache", expected=pin.sha256, found=found)
        return Tree(self.cache.entry(pin.sha256), pin.sha256, pin.commit)

    def restored(self, source: Source, pin: Pin) -> Tree:
        """Return what a pin's commit holds, fetched again when the cache no longer has it."""
        if self.cache.hash_of(pin.sha256) == pin.sha256:
            return Tree(self.cache.entry(pin.sha256), pin.sha256, pin.commit)
        return self._fetch(source, pin.commit)

    def newest(self, source: Source) -> Tree:
        """Return what the source gives now; all that asks for one repository gets one commit."""
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
            if self.cache.hash_of(found) not in (None, found):
                self.cache.discard(found)
            return Tree(self.cache.keep(workspace / "tree", found), found, commit)


# Most runs fetch nothing, and need neither processes nor the network.
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
