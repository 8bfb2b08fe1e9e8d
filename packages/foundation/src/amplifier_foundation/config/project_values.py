"""Which values of a project's files are used, which are withheld, and which need a grant."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from amplifier_foundation.config.addresses import UNREADABLE, is_address_key, origins_in
from amplifier_foundation.config.modules import module_key, module_list
from amplifier_foundation.config.project_rules import USER_ONLY, Key, key_of, may_use, why_withheld
from amplifier_foundation.config.variables import MISSING, UNSET, Lookup, expand_value
from amplifier_foundation.errors import TrustError

__all__ = ["ProjectValues", "origins_of", "refuse_ungranted"]

# The parts of a file that configure modules or name something to fetch; the rest is text.
_PARTS = (
    "session",
    "providers",
    "tools",
    "hooks",
    "agents",
    "spawn",
    "modules",
    "config",
    "sources",
    "bundle",
    "includes",
    "mcpServers",
    "servers",
)
_PROSE = frozenset({"description", "instruction", "instructions", "system"})
# Further origins are named once these are granted: the message has to stay readable.
_MOST_NAMED = 10
# Below a key such as `proxies`, these names say which scheme each address is for.
_SCHEMES = frozenset({"http", "https", "all", "ws", "wss"})


class _CommandWithheldError(Exception):
    """A part of a command is withheld, so the whole mapping that has it is left out."""


class _Where(NamedTuple):
    """The place of a value: its module, and the keys that lead to it in the configuration."""

    module: str | None = None
    path: tuple[str, ...] = ()
    # Whether `path` starts in the configuration of the module, or anywhere else.
    in_config: bool = False

    def below(self, key: str, value: dict[str, Any]) -> _Where:
        module = value.get("module")
        if isinstance(module, str) and not self.in_config:
            if key == "config":
                return _Where(module, (), in_config=True)
            return _Where(module, (key,))
        return self._replace(path=(*self.path, key))

    @property
    def key(self) -> Key | None:
        if self.in_config:
            return key_of(self.module, self.path)
        return None

    @property
    def is_description(self) -> bool:
        """Whether it is a bundle or an agent, which have texts beside their configuration."""
        of_agent = len(self.path) == 2 and self.path[0] == "agents"
        return self.module is None and (of_agent or self.path == ("bundle",))

    @property
    def told(self) -> str:
        name = _printable(".".join(self.path).removesuffix(".*"))
        if self.module:
            return f"{name} of {_printable(self.module)}"
        return name


class ProjectValues:
    """Merges a project's values over the user's, with the variables of both expanded.

    `origins` are those of all addresses in the project's values that are used. `notices` say
    what is not used. The names of variables that have no value are added to `unset`.
    """

    def __init__(self, project: Path, unset: list[str]) -> None:
        self._project = project
        self.origins: list[str] = []
        self.notices: list[str] = []
        self.unset = unset

    def settle(self, value: Any, own: Any, lookup: Lookup) -> Any:
        """Return the permitted part of `value`; `own` is the user's value in the same place.

        What equals the user's value is the user's. Anything else that a project may not set is
        replaced by the user's value, or left out if there is none.
        """
        settled = self._settle(value, own, _Where(), lookup)
        if settled is UNSET:
            return type(value)()
        return settled

    def _settle(self, value: Any, own: Any, where: _Where, lookup: Lookup) -> Any:
        if value == own:
            return expand_value(own, lookup, self.unset)
        key = where.key
        kind = "" if key is None else key.kind
        used = MISSING
        if kind == "user":
            self._withhold(where, USER_ONLY)
        elif kind == "denials" and isinstance(value, dict):
            used = self._denial(cast("dict[str, Any]", value), where, lookup)
        elif isinstance(value, dict):
            with suppress(_CommandWithheldError):
                used = self._mapping(cast("dict[str, Any]", value), own, where, lookup)
        elif isinstance(value, list):
            used = self._list(cast("list[Any]", value), own, where, lookup)
        else:
            used = self._single(value, own, where, lookup)
        if used is not MISSING:
            return used
        if own is MISSING:
            return UNSET
        return expand_value(own, lookup, self.unset)

    def _mapping(self, value: dict[str, Any], own: Any, where: _Where, lookup: Lookup) -> Any:
        users: dict[str, Any] = cast("dict[str, Any]", own) if isinstance(own, dict) else {}
        settled: dict[str, Any] = {}
        for key, each in value.items():
            if key in _PROSE and where.is_description:
                settled[key] = each
                continue
            # An address may be the key of a mapping, too.
            if key not in users:
                self.origins += origins_in(key)
            used = self._settle(each, users.get(key, MISSING), where.below(key, value), lookup)
            if used is not UNSET:
                settled[key] = used
        return settled

    def _list(self, value: list[Any], own: Any, where: _Where, lookup: Lookup) -> Any:
        users: list[Any] = cast("list[Any]", own) if isinstance(own, list) else []
        entries = {} if where.in_config else _by_module(users)
        settled: list[Any] = []
        for each in value:
            if each in users:
                used = expand_value(each, lookup, self.unset)
            elif isinstance(each, dict) and entries and "module" in each:
                used = self._entry(cast("dict[str, Any]", each), entries, where, lookup)
            else:
                used = self._settle(each, MISSING, where._replace(path=(*where.path, "*")), lookup)
            if used is not UNSET:
                settled.append(used)
        return settled

    def _entry(
        self, entry: dict[str, Any], entries: dict[str, Any], where: _Where, lookup: Lookup
    ) -> Any:
        known = entries.get(module_key(entry), MISSING)
        if known is not MISSING and known.get("module") != entry["module"]:
            # The user's configuration, with its keys, is for the module that the user named.
            self._withhold(_Where(str(known.get("module")), ("module",)), USER_ONLY)
            return expand_value(known, lookup, self.unset)
        return self._settle(entry, known, where, lookup)

    def _single(self, value: Any, own: Any, where: _Where, lookup: Lookup) -> Any:
        """Return a value of the project with its variables expanded, or MISSING if withheld."""
        # Expanded before it is checked: what counts is the path or address that would be used.
        expanded = self._expanded(value, where, lookup)
        if expanded is UNSET:
            return UNSET
        key = where.key
        if key is None:
            why = None
        else:
            why = why_withheld(key, expanded, own, self._project)
        if why is not None:
            self._withhold(where, why)
            if key is not None and key.kind == "command":
                # A command with an argument missing could do something else: drop its server.
                raise _CommandWithheldError
            return MISSING
        self.origins += origins_in(expanded, named=_is_named(where, expanded))
        return expanded

    def _denial(self, rule: dict[str, Any], where: _Where, lookup: Lookup) -> Any:
        """Return a rule if it denies; a project's other rules are withheld."""
        expanded = self._expanded(rule, where, lookup)
        if expanded.get("action") == "deny":
            return expanded
        self._withhold(where, USER_ONLY)
        return MISSING

    def _expanded(self, value: Any, where: _Where, lookup: Lookup) -> Any:
        refused: list[str] = []

        def allowed(name: str) -> str | None:
            if may_use(name, where.module, where.key):
                return lookup(name)
            refused.append(name)
            return None

        unset: list[str] = []
        expanded = expand_value(value, allowed, unset)
        self.unset += [name for name in unset if name not in refused]
        for name in dict.fromkeys(refused):
            self._notice(
                f"`${{{name}}}` in {where.told} was left out: a project's files may not use it."
                " Set the value in your own settings."
            )
        return expanded

    def _withhold(self, where: _Where, why: str) -> None:
        self._notice(f"{where.told} in a project's file was ignored: {why}")

    def _notice(self, notice: str) -> None:
        if notice not in self.notices:
            self.notices.append(notice)


def origins_of(values: Mapping[str, Any], project: Path, lookup: Lookup) -> Iterator[str]:
    """Yield the origin of each address in a project's file, with variables expanded."""
    found = ProjectValues(project, [])
    for part in _PARTS:
        if part in values:
            found.settle({part: values[part]}, MISSING, lookup)
    yield from found.origins


def refuse_ungranted(origins: Collection[str], granted: Collection[str], project: Path) -> None:
    """Raise TrustError if a project's files name an address that the user has not granted."""
    unreadable = [each for each in origins if each.startswith(UNREADABLE)]
    if unreadable:
        raise TrustError(
            f"`{unreadable[0].removeprefix(UNREADABLE)}` is not used as an address.",
            why=f"A file in `{project}` has it, and programs read it in different ways.",
            fix="Write it there as scheme://host:port, in ASCII, then: amplifier trust",
        )
    missing = sorted(set(origins) - set(granted))[:_MOST_NAMED]
    if missing:
        names = ", ".join(f"`{origin}`" for origin in missing)
        options = " ".join(f"--origin {_quoted(origin)}" for origin in missing)
        raise TrustError(
            f"Requests, and with them a key, would go to {names}.",
            why=f"A file in `{project}` says so, and you have not allowed it.",
            fix=f"amplifier trust {options}",
        )


def _by_module(entries: list[Any]) -> dict[str, dict[str, Any]]:
    return {module_key(entry): entry for entry in module_list(entries) or ()}


def _is_named(where: _Where, value: Any) -> bool:
    """Return whether a value is meant as an address, by its key or by a key above it."""
    if where.key is not None:
        return where.key.kind == "address"
    names = [name for name in where.path if name != "*"]
    if not names or is_address_key(names[-1]):
        return bool(names)
    looks_like_host = isinstance(value, str) and ("." in value or ":" in value)
    likely = looks_like_host or value == "localhost" or names[-1].lower() in _SCHEMES
    return likely and any(is_address_key(name) for name in names[:-1])


def _printable(text: str) -> str:
    if text.isascii() and text.isprintable():
        plain = text
    else:
        plain = ascii(text)[1:-1]
    return f"`{plain[:80]}`"


def _quoted(origin: str) -> str:
    if "'" not in origin:
        return f"'{origin}'"
    return shlex.quote(origin)
