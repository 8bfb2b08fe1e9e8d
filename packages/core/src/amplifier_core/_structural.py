"""Protocols that `isinstance` checks by shape, without requiring optional members."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import runtime_checkable as structural
else:

    def structural(protocol: type) -> type:
        """Make `isinstance(x, protocol)` check whether `x` has the protocol's members."""
        protocol._members = tuple(
            name
            for name, member in vars(protocol).items()
            if isinstance(member, FunctionType | property)
            and (name == "__call__" or not name.startswith("_"))
            and name not in _OPTIONAL
        )
        protocol.__class__ = _StructuralMeta
        return protocol


__all__ = ["missing_members", "structural"]

# Offered by a contract with a default, so an implementation may lack it.
_OPTIONAL = frozenset({"input_schema"})


class _StructuralMeta(type(Protocol)):
    """Like `runtime_checkable`, except for optional members."""

    def __instancecheck__(cls, instance: object) -> bool:
        if "_members" not in cls.__dict__:
            return super().__instancecheck__(instance)
        return not missing_members(instance, cls)


def missing_members(instance: object, protocol: type) -> list[str]:
    """Return the members of a structural protocol that an object does not have."""
    missing: list[str] = []
    for name in protocol.__dict__["_members"]:
        # On the class first, so that no property runs; but every class has a `__call__`.
        member = None if name == "__call__" else getattr(instance.__class__, name, None)
        if member is None and getattr(instance, name, None) is None:
            missing.append(name)
    return missing
