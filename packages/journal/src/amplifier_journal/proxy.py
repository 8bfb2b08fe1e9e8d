"""A proxy of a module, for wrappers that add to what it does."""

from __future__ import annotations

from typing import Any

__all__ = ["Proxy", "innermost"]


class Proxy:
    """Forwards reading and setting of attributes to the wrapped object.

    A subclass names its own attributes in `__slots__`; all others belong to the wrapped object.
    """

    __slots__ = ("_inner",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        is_own = any(name in getattr(each, "__slots__", ()) for each in type(self).__mro__)
        if is_own:
            object.__setattr__(self, name, value)
        else:
            setattr(self._inner, name, value)


def innermost(thing: Any) -> Any:
    """Return the object that all proxies around it wrap."""
    while isinstance(thing, Proxy):
        thing = object.__getattribute__(thing, "_inner")
    return thing
