"""The configuration keys of every module in this repository, from the models that read them."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

# Those that are installed: an older version, which these attacks are tried on too, has fewer.
_PACKAGES = {
    each.name: each.value.partition(":")[0]
    for each in importlib.metadata.entry_points(group="amplifier.modules")
}
MODULES = sorted(_PACKAGES)
# What has to be there so that a module reads the key beside it.
_BESIDE: dict[str, dict[str, Any]] = {
    "allow": {"program": "ls"},
    "rules": {"tool": "*", "action": "allow"},
    "script": {"text": "Done."},
    "search": {"url": "http://127.0.0.1:9/?q={query}"},
    "servers": {"command": "true"},
}


class ConfigKey(NamedTuple):
    """A key and its types in JSON Schema; `*` stands for a name, `[]` for a place in a list."""

    module: str
    path: tuple[str, ...]
    types: frozenset[str]

    @property
    def name(self) -> str:
        """The key as documents write it."""
        return ".".join(part for part in self.path if part != "[]")

    @property
    def takes_text(self) -> bool:
        """Whether any text is a value of it."""
        return bool(self.types & {"string", "path", "any"}) and "number" not in self.types

    def config(self, value: Any) -> dict[str, Any]:
        """Return a configuration with this key, and with what has to be beside it."""
        made: Any = value
        for depth in range(len(self.path) - 1, -1, -1):
            part = self.path[depth]
            if part == "[]":
                made = [made]
                continue
            above = self.path[depth - 1] if depth else ""
            of_list = above == "[]" and depth >= 2 and self.path[depth - 2] or ""
            is_entry = above == "*" and depth >= 2 and self.path[depth - 2] or ""
            beside = _BESIDE.get(of_list or is_entry or (above if above == "search" else ""), {})
            if part == "url" and is_entry:
                beside = {}
            made = {**beside, ("entry" if part == "*" else part): made}
        return made


def keys_of(module: str) -> list[ConfigKey]:
    """Return every key of a module's configuration that holds a single value."""
    found: dict[tuple[str, ...], set[str]] = {}
    schema = model_of(module).model_json_schema()
    for path, kind in _leaves(schema, schema, ()):
        found.setdefault(path, set()).add(kind)
    return [ConfigKey(module, path, frozenset(types)) for path, types in found.items()]


def model_of(module: str) -> type[BaseModel]:
    """Return the model of a module's whole configuration: the last one in its `config.py`."""
    config = importlib.import_module(f"{_PACKAGES[module]}.config")
    models = [
        each
        for each in vars(config).values()
        if inspect.isclass(each)
        and issubclass(each, BaseModel)
        and each.__module__ == config.__name__
    ]
    assert models[-1].__name__.endswith("Config")
    return models[-1]


def _leaves(
    schema: dict[str, Any], node: dict[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    below = [(path, each) for part in ("anyOf", "oneOf", "allOf") for each in node.get(part, ())]
    below += [((*path, name), each) for name, each in node.get("properties", {}).items()]
    below += [((*path, "*"), each) for each in node.get("patternProperties", {}).values()]
    extra: Any = node.get("additionalProperties")
    if isinstance(extra, dict):
        below.append(((*path, "*"), cast("dict[str, Any]", extra)))
    elif extra is True:
        yield (*path, "*"), "any"
    if "items" in node:
        below.append(((*path, "[]"), node["items"]))
    for place, each in below:
        yield from _leaves(schema, each, place)
    if not below and extra is not True:
        kind = node.get("type", "any")
        yield path, "path" if node.get("format") == "path" else kind
