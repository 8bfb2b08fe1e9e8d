"""Resolve each `source:` in a file, with one parser for trust and for the loader.

With two parsers, a project could show one folder to the user and have another one loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_foundation.errors import TrustError

__all__ = ["SourceOrigin", "mappings_in", "origin_of", "path_sources", "with_absolute_sources"]

BUNDLE_FILES = ("bundle.md", "bundle.yaml", "bundle.yml")

# Keys that have a source, besides `source` next to `module`.
_PART_SOURCES = ("orchestrator_source", "context_source")


class SourceOrigin(NamedTuple):
    """The file in which sources are written, and where relative ones start.

    `project` is given for a file that came with a project. Its sources are limited to what the
    user can be shown: no variables, and no path that leads out of the project.
    """

    file: Path
    folders: tuple[Path, ...]
    home: Path
    project: Path | None = None


def origin_of(file: Path, home: Path, project: Path | None = None) -> SourceOrigin:
    """Return the origin of the sources in a bundle's or an agent's file.

    They are relative to its folder, else to the root of its bundle, else, in a project's file, to
    the project.
    """
    folders = [file.parent, bundle_root(file, home)]
    if project is not None:
        folders.append(project)
    return SourceOrigin(file, tuple(dict.fromkeys(folders)), home, project)


def bundle_root(file: Path, home: Path) -> Path:
    """Return the nearest folder above with a bundle's file; agents have theirs above `agents`."""
    for folder in file.parents:
        # In a world-writable folder such as /tmp, a bundle file of another user must not become
        # the root of this one.
        if folder != file.parent and folder.stat().st_mode & 0o002:
            break
        if any((folder / name).is_file() for name in BUNDLE_FILES):
            return folder
        if (folder / ".git").exists() or folder in (home, Path.home()):
            break
    if file.parent.name == "agents":
        return file.parent.parent
    return file.parent


def with_absolute_sources(value: Any, origin: SourceOrigin) -> Any:
    """Return a copy in which every source that is a path is absolute, with links resolved.

    Raises:
        TrustError: the file is a project's, and a source in it cannot be shown and compared by
            its content.
    """
    if isinstance(value, list):
        return [with_absolute_sources(each, origin) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    entry = cast("dict[str, Any]", value)
    copy = {key: with_absolute_sources(each, origin) for key, each in entry.items()}
    for holder, key in _places_in(copy):
        holder[key] = _absolute(holder[key], origin)
    return copy


def path_sources(value: Any) -> Iterator[Path]:
    """Yield the paths among the sources of what `with_absolute_sources` returned."""
    for entry in mappings_in(value):
        for holder, key in _places_in(entry):
            source = holder[key]
            if isinstance(source, str) and source.startswith("/") and "${" not in source:
                yield Path(source)


def mappings_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping in a document, at whatever depth."""
    waiting: list[Any] = [value]
    while waiting:
        each: Any = waiting.pop()
        if isinstance(each, list):
            waiting += cast("list[Any]", each)
        elif isinstance(each, dict):
            entry = cast("dict[str, Any]", each)
            waiting += entry.values()
            yield entry


def _places_in(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the mapping and the key of each source in one mapping, without descending."""
    if "module" in entry and entry.get("source") is not None:
        yield entry, "source"
    for key in _PART_SOURCES:
        if entry.get(key) is not None:
            yield entry, key
    sources = entry.get("sources")
    if isinstance(sources, dict):
        modules = cast("dict[str, Any]", sources).get("modules")
    else:
        modules = None
    if isinstance(modules, dict):
        named = cast("dict[str, Any]", modules)
        for module_id, source in named.items():
            if source is not None:
                yield named, module_id


def _absolute(given: Any, origin: SourceOrigin) -> Any:
    # Most files name no source, and do not pay for this.
    from amplifier_foundation.sources.errors import SourceFormatError  # noqa: PLC0415
    from amplifier_foundation.sources.local import local_path  # noqa: PLC0415
    from amplifier_foundation.sources.uri import parse_source  # noqa: PLC0415

    if _has_variable(given):
        if origin.project is not None:
            # The environment of a later run may not be that of the user's decision.
            raise _refused(given, origin, "What a variable stands for cannot be shown to you.")
        if not str(given).startswith("."):
            return given
    try:
        source = parse_source(given)
        if source.kind != "path":
            return given
        path = local_path(source, *origin.folders, within=origin.project)
    except SourceFormatError as error:
        if origin.project is None:
            # The loader reports what is wrong with it.
            return given
        raise _refused(given, origin, error.why) from error
    if origin.project is not None:
        _require_listable(given, path, origin, origin.project)
    return str(path)


def _require_listable(given: Any, path: Path, origin: SourceOrigin, project: Path) -> None:
    """Raise TrustError for a path in the project that cannot be listed with its content."""
    if path.is_relative_to(origin.home.resolve()):
        raise _refused(given, origin, "It leads into your own folder.")
    if ".git" in path.relative_to(project.resolve()).parts:
        raise _refused(given, origin, "What git keeps for itself cannot be held to its content.")
    text = str(path)
    if text != text.strip() or "${" in text or not text.isprintable():
        raise _refused(
            given, origin, "Its path has blanks at an end, `${` or invisible characters."
        )


def _has_variable(given: Any) -> bool:
    if isinstance(given, Mapping):
        return any(_has_variable(each) for each in cast("Mapping[str, Any]", given).values())
    return isinstance(given, str) and "${" in given


def _refused(given: Any, origin: SourceOrigin, why: str) -> TrustError:
    text = str(given)
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    return TrustError(
        f"The source `{shown}` in `{origin.file}` is not used.",
        why=why,
        fix="Write it as ./folder inside the project, or in your own settings.",
    )
