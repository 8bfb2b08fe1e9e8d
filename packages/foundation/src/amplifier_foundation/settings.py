"""Settings in three scopes (user, project, local): reading them, their origins, changing them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import yaml

from amplifier_foundation import paths
from amplifier_foundation.config.documents import parse_mapping, read_text, suggestion
from amplifier_foundation.config.granted_texts import read_granted
from amplifier_foundation.config.modules import merge, merge_modules, module_key, module_list
from amplifier_foundation.config.plain_files import is_file, require_own
from amplifier_foundation.config.written_sources import SourceOrigin, with_absolute_sources
from amplifier_foundation.errors import SettingsError
from amplifier_kit.durable_files import make_private_folder, write_whole

Scope = Literal["user", "project", "local"]

# Every key and its type. A dict lists the keys below it; `dict` leaves them to their reader.
_KEYS: dict[str, Any] = {
    "bundle": {"active": str, "app": list, "added": dict},
    "providers": list,
    "modules": {"tools": list, "hooks": list},
    "session": dict,
    "sources": {"modules": dict, "bundles": dict},
    "config": dict,
    "pricing": dict,
    "terminal": {"bell": bool, "title": bool, "notes": bool},
}
_MODULE_LISTS = ("providers", "modules.tools", "modules.hooks", "config.providers")


class Layer(NamedTuple):
    """What one file says."""

    scope: Scope
    path: Path
    values: dict[str, Any]


class Setting(NamedTuple):
    """One value and the file that set it; an entry of a module list is keyed by its module."""

    key: str
    value: Any
    layer: Layer


@dataclass(frozen=True)
class Settings:
    """The merged view of all scopes that apply.

    `withheld` are the project's files that were not even opened, because it is not trusted.
    `notices` are for the user and list unknown keys. `acting` are the project's files that the user
    has decided about, None if that is not known; `digests` are their sha256 at that time.
    """

    project: Path
    home: Path
    trusted: bool
    layers: tuple[Layer, ...]
    withheld: tuple[Path, ...]
    notices: tuple[str, ...]
    granted: frozenset[str]
    acting: frozenset[str] | None
    values: dict[str, Any]
    digests: Mapping[str, str] = field(default_factory=dict[str, str])

    def get(self, key: str, default: Any = None) -> Any:
        """Return the merged value under a dotted key such as `modules.tools`."""
        return _under(self.values, key, default)

    def of_user(self) -> Settings:
        """Return the settings as they are without the project's files."""
        layers = tuple(layer for layer in self.layers if layer.scope == "user")
        values = layers[0].values if layers else {}
        return replace(self, layers=layers, values=values)

    def origin(self, key: str) -> Layer | None:
        """Return the last layer that sets `key`, or something below it."""
        found = (layer for layer in reversed(self.layers) if _under(layer.values, key) is not None)
        return next(found, None)

    def all(self) -> Iterator[Setting]:
        """Yield every value with its origin, in the order of the merged view."""
        leaves = [(layer, dict(_leaves("", layer.values))) for layer in self.layers]
        for key, value in _leaves("", self.values):
            layer = next(layer for layer, own in reversed(leaves) if key in own)
            yield Setting(key, value, layer)


def load_settings(
    project: Path,
    *,
    trusted: bool,
    granted: Iterable[str] = (),
    acting: Iterable[str] | Mapping[str, str] | None = None,
    home: Path | None = None,
) -> Settings:
    """Read the files of all scopes; later scopes win: user, project, local.

    Without trust, nothing in the project's folder is opened. `granted` are the addresses to which
    a trusted project may send requests, `acting` its files that may act (see `Trust`); without
    it, all may. A mapping also has the digest of each file at the time of the decision. Variables
    are not expanded.

    Raises:
        SettingsError: a file cannot be read, is not valid YAML, has a value of the wrong kind, or
            is the user's own and could have been written by another user.
    """
    home = home or paths.home()
    # Checked without a settings file too: in a folder that others can write, one could appear.
    require_own(home, SettingsError)
    digests: dict[str, str] = {}
    if isinstance(acting, Mapping):
        digests |= cast("Mapping[str, str]", acting)
    own = _project_files(project, home)
    layers: list[Layer] = []
    user = paths.user_settings(home)
    if user.is_file():
        # Paths in the user's file are relative to its folder, those in a project's to the project.
        try:
            layers.append(_read("user", SourceOrigin(user, (user.parent,), home), {}))
        except SettingsError as error:
            if not error.fix:
                error.fix = shlex.join(["mv", str(user), f"{user}.broken"])
            raise
    for scope, path in own:
        if trusted and is_file(path):
            origin = SourceOrigin(path, (project,), home, project)
            layers.append(_read(scope, origin, digests))
    values: dict[str, Any] = {}
    for layer in layers:
        values = _merge_layers(values, layer.values)
    return Settings(
        project=project,
        home=home,
        trusted=trusted,
        layers=tuple(layers),
        withheld=() if trusted else tuple(path for _, path in own if is_file(path)),
        notices=tuple(notice for layer in layers for notice in _unknown(layer)),
        granted=frozenset(granted),
        acting=None if acting is None else frozenset(cast("Iterable[str]", acting)),
        values=values,
        digests=digests,
    )


def _project_files(project: Path, home: Path) -> list[tuple[Scope, Path]]:
    # In the home folder, `.amplifier` is the user's own folder, and its settings no project's.
    if home.resolve() == (project / ".amplifier").resolve():
        return []
    return [
        ("project", paths.project_settings(project)),
        ("local", paths.local_settings(project)),
    ]


def _read(scope: Scope, origin: SourceOrigin, digests: Mapping[str, str]) -> Layer:
    path = origin.file
    text = read_granted(path, origin.folders[0], digests, error=SettingsError)
    values = parse_mapping(text, where=str(path), error=SettingsError)
    if isinstance(values.get("bundle"), str):
        values["bundle"] = {"active": values["bundle"]}
    # A key with nothing below it, say because every entry is commented out, sets nothing.
    values = {key: value for key, value in values.items() if value is not None}
    _check_kinds(path, values, _KEYS)
    for key in _MODULE_LISTS:
        if module_list(_under(values, key) or []) is None:
            raise SettingsError(
                f"`{key}` in `{path}` has an entry without a module.",
                why="Each entry is `- module: <id>`, with `config:` and `source:` if need be.",
            )
    return Layer(scope, path, with_absolute_sources(values, origin))


def _check_kinds(path: Path, values: dict[str, Any], keys: dict[str, Any], above: str = "") -> None:
    for key, value in values.items():
        kind = keys.get(key)
        if kind is None or value is None:
            continue
        wanted = dict if isinstance(kind, dict) else kind
        if not isinstance(value, wanted):
            found = type(value).__name__
            raise SettingsError(
                f"`{above}{key}` in `{path}` must be a {wanted.__name__}, not a {found}."
            )
        if isinstance(kind, dict):
            below = cast("dict[str, Any]", kind)
            _check_kinds(path, cast("dict[str, Any]", value), below, f"{above}{key}.")


def _unknown(layer: Layer) -> Iterator[str]:
    yield from _unknown_keys(layer.path, layer.values, _KEYS)


def _unknown_keys(
    path: Path, values: dict[str, Any], keys: dict[str, Any], above: str = ""
) -> Iterator[str]:
    for key, value in values.items():
        kind = keys.get(key)
        if kind is None:
            hint = suggestion(key, list(keys))
            yield f"`{above}{key}` in `{path}` has no meaning.{hint}"
        elif isinstance(kind, dict) and isinstance(value, dict):
            below = cast("dict[str, Any]", kind)
            yield from _unknown_keys(path, cast("dict[str, Any]", value), below, f"{above}{key}.")


def _merge_layers(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    merged = merge(earlier, later)
    # `merge` joins lists, but two entries of these may be about the same module.
    for key in _MODULE_LISTS:
        both = [_under(values, key) for values in (earlier, later)]
        if all(both):
            above, _, last = key.rpartition(".")
            _under(merged, above)[last] = merge_modules(*both)
    return merged


def _under(values: dict[str, Any], key: str, default: Any = None) -> Any:
    found: Any = values
    for part in key.split(".") if key else ():
        if not isinstance(found, dict) or part not in found:
            return default
        found = cast("dict[str, Any]", found)[part]
    return found


def _leaves(above: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a value, each under a key that is the same in every layer."""
    if isinstance(value, dict) and value:
        for key, each in cast("dict[str, Any]", value).items():
            yield from _leaves(f"{above}.{key}" if above else key, each)
    elif isinstance(value, list) and value:
        for each in cast("list[Any]", value):
            if isinstance(each, dict):
                entry = cast("dict[str, Any]", each)
            else:
                entry = None
            if entry is not None and "module" in entry:
                # Not by position: an entry has another position in the merged list.
                yield from _leaves(f"{above}[{module_key(entry)}]", entry)
            else:
                yield f"{above}[{each!r}]", each
    elif above:
        yield above, value


def change_user_settings(change: Callable[[dict[str, Any]], None]) -> Path:
    """Apply `change` to the user's settings, replace the file atomically, and return its path.

    YAML comments are lost when it is rewritten, so a file with comments is first copied to `.bak`.
    """
    path = paths.user_settings(paths.home())
    if path.is_file():
        text = read_text(path, error=SettingsError)
    else:
        text = ""
    try:
        values: Any = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not valid YAML.", why=str(error)) from error
    change(values)
    make_private_folder(path.parent)
    if "#" in text:
        write_whole(path.with_suffix(".yaml.bak"), text.encode())
    write_whole(path, yaml.safe_dump(values, sort_keys=False).encode())
    return path


def set_user_setting(key: str, text: str) -> Path:
    """Set a dotted key in the user's settings to a value given as YAML; returns the file.

    Raises:
        SettingsError: the key has no meaning, or the value is not of its kind.
    """
    try:
        value: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise SettingsError(f"The value of `{key}` is not valid YAML.", why=reason) from error
    parts = key.split(".")
    given: Any = value
    for part in reversed(parts):
        given = {part: given}
    path = paths.user_settings(paths.home())
    for unknown in _unknown_keys(path, given, _KEYS):
        raise SettingsError(unknown, fix="amplifier config list")
    _check_kinds(path, given, _KEYS)

    def change(values: dict[str, Any]) -> None:
        section = values
        for part in parts[:-1]:
            below = section.get(part)
            # `bundle: NAME` is the short form of `bundle.active`.
            if part == "bundle" and isinstance(below, str):
                below = {"active": below}
            section[part] = below or {}
            section = section[part]
        section[parts[-1]] = value

    return change_user_settings(change)


def unset_user_setting(key: str) -> Path | None:
    """Remove a dotted key from the user's settings; returns the file, or None if it is not set."""
    above, _, last = key.rpartition(".")

    def change(values: dict[str, Any]) -> None:
        section = _under(values, above)
        if not isinstance(section, dict) or last not in section:
            # Raised so that a file without the key is not written.
            raise LookupError(key)
        del section[last]
        if not section and "." not in above:
            values.pop(above, None)

    try:
        return change_user_settings(change)
    except LookupError:
        return None
