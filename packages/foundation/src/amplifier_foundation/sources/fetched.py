"""What was fetched: git commits and archives in the cache, as pinned or as they are now."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from amplifier_foundation.sources.cache import Cache, bare_hash
from amplifier_foundation.sources.errors import DriftError
from amplifier_foundation.sources.fetching import Limits, ProgressListener, Watch
from amplifier_foundation.sources.lock import Pin
from amplifier_foundation.sources.uri import Source

__all__ = ["FetchedSources", "Tree"]


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
