"""Interposition: wrappers that stand between a mounted module and whoever reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Wrap: TypeAlias = Callable[[str, Any], Any]


class Interposer:
    """One wrapper around the modules of one mount point."""

    __slots__ = ("inherit", "mount_point", "name", "priority", "wrap")

    def __init__(
        self, mount_point: str, wrap: Wrap, name: str, priority: int, *, inherit: bool
    ) -> None:
        self.mount_point = mount_point
        self.wrap = wrap
        self.name = name
        self.priority = priority
        self.inherit = inherit


class Interposition:
    """The wrappers of one mount point, and what they made of the modules mounted there.

    Lower priority stands nearer to the caller. A module is wrapped once and keeps its wrapper
    until it or the set of wrappers changes, so that whoever reads twice gets the same object.
    """

    __slots__ = ("_interposers", "_named", "_wrapped")

    def __init__(self) -> None:
        self._interposers: tuple[Interposer, ...] = ()
        self._wrapped: dict[str, tuple[Any, Any]] = {}
        # One dict for the life of the session: an orchestrator that was handed it stays current.
        self._named: dict[str, Any] | None = None

    def add(self, interposer: Interposer) -> None:
        """Put a wrapper around every module of this mount point."""
        together = (*self._interposers, interposer)
        self._interposers = tuple(sorted(together, key=lambda each: each.priority))
        self._wrapped.clear()

    def remove(self, interposer: Interposer) -> None:
        """Take a wrapper away again."""
        self._interposers = tuple(each for each in self._interposers if each is not interposer)
        self._wrapped.clear()

    @property
    def interposers(self) -> tuple[Interposer, ...]:
        """The wrappers, outermost first."""
        return self._interposers

    def one(self, name: str, module: Any) -> Any:
        """Return `module` as callers are to see it."""
        if module is None or not self._interposers:
            return module
        known = self._wrapped.get(name)
        if known is not None and known[0] is module:
            return known[1]
        wrapped = module
        for interposer in reversed(self._interposers):
            wrapped = interposer.wrap(name, wrapped)
        self._wrapped[name] = (module, wrapped)
        return wrapped

    def all(self, modules: dict[str, Any]) -> dict[str, Any]:
        """Return the named modules as callers are to see them."""
        current = {name: self.one(name, module) for name, module in modules.items()}
        if self._named is None:
            self._named = current
        elif list(map(id, self._named.values())) != list(map(id, current.values())) or (
            list(self._named) != list(current)
        ):
            self._named.clear()
            self._named.update(current)
        return self._named if self._interposers else modules
