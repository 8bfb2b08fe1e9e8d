"""References between files of bundles, `name:path` or a path, and the files they mean."""

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
    """Tell whether a source has to fetch it: `git+https://...`, `file:///...`, `package:name`."""
    return _ADDRESS.match(reference) is not None


def is_path(reference: str) -> bool:
    """Tell whether it is written as a path, and so cannot be the name of a bundle."""
    return reference.startswith((".", "/", "~")) or ("/" in reference and ":" not in reference)


def find(
    reference: str,
    place: Place,
    namespaces: Mapping[str, Path],
    candidates: Candidates,
    accept: Callable[[Path], bool] = is_file,
) -> Path | None:
    """Return the file that a reference means; it lies below the root of its bundle.

    Raises:
        MissingBundleError: the reference names a bundle that is not there.
    """
    root, paths = _paths(reference, place, namespaces)
    for path in paths:
        for candidate in candidates(root, path):
            # A bundle from elsewhere must not show the person's files to a model, so neither
            # `..` nor `/` nor a link leads out of it.
            if accept(candidate) and candidate.resolve().is_relative_to(root.resolve()):
                return candidate
    return None


def leads_out(reference: str, place: Place, namespaces: Mapping[str, Path]) -> bool:
    """Tell whether a reference means a file that is there, and not in its bundle."""
    root, paths = _paths(reference, place, namespaces)
    there = [path for path in paths if is_file(path)]
    return any(not path.resolve().is_relative_to(root.resolve()) for path in there)


def _paths(reference: str, place: Place, namespaces: Mapping[str, Path]) -> tuple[Path, list[Path]]:
    """Return the root of the bundle that a reference is about, and the paths that it may mean."""
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
    """Yield the path as it is."""
    yield path


def bundle_files(root: Path, path: Path) -> Iterator[Path]:
    """Yield the file of a bundle that is named with or without its ending, or by its folder."""
    yield path
    for suffix in (".yaml", ".yml", ".md"):
        yield path.with_name(path.name + suffix)
    for name in BUNDLE_FILES:
        yield path / name


def agent_files(root: Path, path: Path) -> Iterator[Path]:
    """Yield the file of an agent: by convention `agents/<name>.md` below the root."""
    if path.is_relative_to(root):
        in_folder = root / "agents" / path.relative_to(root)
        yield in_folder.with_name(in_folder.name + ".md")
        yield in_folder
    yield path.with_name(path.name + ".md")
    yield path
