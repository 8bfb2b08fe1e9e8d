"""The capability `mention_resolver`, which resolves `@bundle:path` and `@path` to files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["BundleFolder", "MentionResolver"]


class BundleFolder(NamedTuple):
    """The folder of a bundle, in which modules look for their own files."""

    base_path: Path


class MentionResolver:
    """Finds what texts mention, in the bundles of a session and in its project."""

    def __init__(self, namespaces: Mapping[str, Path], project: Path) -> None:
        self.bundles = {name: BundleFolder(root) for name, root in namespaces.items()}
        self._project = project

    def resolve(self, mention: str) -> Path | None:
        """Return the file or folder that a mention leads to, or None.

        Nothing outside of the bundle or the project is found, neither by `..` nor by a link: a
        bundle must not reach other files of the user.
        """
        if not mention.startswith("@"):
            return None
        name, colon, path = mention[1:].partition(":")
        if not colon:
            return _beneath(self._project, name)
        bundle = self.bundles.get(name)
        if bundle is None:
            return None
        return _beneath(bundle.base_path, path)


def _beneath(root: Path, path: str) -> Path | None:
    if not path or "\0" in path:
        return None
    inside = root.resolve()
    for candidate in _candidates(root / path):
        if candidate.exists() and candidate.resolve().is_relative_to(inside):
            return candidate
    return None


def _candidates(path: Path) -> Iterator[Path]:
    """Yield the path as written, and with `.md` added."""
    yield path
    yield path.with_name(f"{path.name}.md")
