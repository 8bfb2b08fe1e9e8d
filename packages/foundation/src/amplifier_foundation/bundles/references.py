"""References between files of bundles, `name:path` or a path, and how they are resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from amplifier_foundation.bundles.bundle import Place
from amplifier_foundation.bundles.files import BUNDLE_FILES
from amplifier_foundation.config.documents import suggestion
from amplifier_foundation.config.plain_files import is_file
from amplifier_foundation.errors import MissingBundleError

__all__ = [
    "agent_files",
    "bundle_files",
    "find",
    "is_address",
    "is_path",
    "leads_out",
    "plain_files",
]

# The files that `path`, as written, may mean in the bundle at `root`; likely ones first.
Candidates = Callable[[Path, Path], Iterator[Path]]

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|package:", re.IGNORECASE)


def is_address(reference: str) -> bool:
    """Return whether it has to be fetched: `git+https://...`, `file:///...`, `package:name`."""
    return _ADDRESS.match(reference) is not None


def is_path(reference: str) -> bool:
    """Return whether it is written as a path, and so cannot be the name of a bundle."""
    return reference.startswith((".", "/", "~")) or ("/" in reference and ":" not in reference)


def find(
    reference: str,
    place: Place,
    namespaces: Mapping[str, Path],
    candidates: Candidates,
    accept: Callable[[Path], bool] = is_file,
) -> Path | None:
    """Return the file below the root of its bundle that a reference leads to, or None.

    Raises:
        MissingBundleError: the reference names a bundle that was not included.
    """
    root, paths = _paths(reference, place, namespaces)
    for path in paths:
        for candidate in candidates(root, path):
            # A fetched bundle must not show the user's files to a model, so neither `..` nor `/`
            # nor a link may lead out of it.
            if accept(candidate) and candidate.resolve().is_relative_to(root.resolve()):
                return candidate
    return None


def leads_out(reference: str, place: Place, namespaces: Mapping[str, Path]) -> bool:
    """Return whether a reference leads to a file that exists outside of its bundle."""
    root, paths = _paths(reference, place, namespaces)
    there = [path for path in paths if is_file(path)]
    return any(not path.resolve().is_relative_to(root.resolve()) for path in there)


def _paths(reference: str, place: Place, namespaces: Mapping[str, Path]) -> tuple[Path, list[Path]]:
    """Return the root of a reference's bundle, and the paths that the reference may mean."""
    name, colon, path = reference.partition(":")
    if not colon:
        name = place.namespace
        path = reference
    if name == place.namespace:
        root = place.root
    else:
        root = namespaces.get(name)
    if root is None:
        raise MissingBundleError(
            f"`{reference}`{place.told} names a bundle that is not there.",
            why=f"No bundle `{name}` was included.{suggestion(name, list(namespaces))}",
        )
    if colon:
        folders = [root]
    else:
        folders = list(dict.fromkeys((place.file.parent, root)))
    return root, [folder / path for folder in folders]


def plain_files(root: Path, path: Path) -> Iterator[Path]:
    """Yield the path unchanged."""
    yield path


def bundle_files(root: Path, path: Path) -> Iterator[Path]:
    """Yield the files that a bundle's path, without a suffix or of a folder, may mean."""
    yield path
    for suffix in (".yaml", ".yml", ".md"):
        yield path.with_name(path.name + suffix)
    for name in BUNDLE_FILES:
        yield path / name


def agent_files(root: Path, path: Path) -> Iterator[Path]:
    """Yield the files that an agent's path may mean: by convention `agents/<name>.md`."""
    if path.is_relative_to(root):
        in_folder = root / "agents" / path.relative_to(root)
        yield in_folder.with_name(in_folder.name + ".md")
        yield in_folder
    yield path.with_name(path.name + ".md")
    yield path
