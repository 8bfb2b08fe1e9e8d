"""An object in front of another, for whoever adds to what a module does."""

from __future__ import annotations

from typing import Any

__all__ = ["Proxy", "innermost"]


class Proxy:
    """Has every attribute of the object behind it, to read and to set.

    What a subclass keeps for itself it names in `__slots__`; all else goes to the object behind.
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
    """Return what stands behind all proxies in front of it."""
    while isinstance(thing, Proxy):
        thing = object.__getattribute__(thing, "_inner")
    return thing
