"""What a tool declares: the effect of a call, its time limit, and whether to trust its output."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

__all__ = ["Declaration", "Effect", "declaration_of"]

# pure: changes nothing; idempotent: may be repeated; unsafe: not repeated without asking.
Effect = Literal["pure", "idempotent", "unsafe"]


class Declaration(NamedTuple):
    """The three declarations; each defaults to the worst case."""

    effect: Effect = "unsafe"
    # Seconds that one call may take; None leaves it to the loop.
    deadline_seconds: float | None = None
    # Whether its output comes from a source that the user trusts.
    output_trusted: bool = False


def declaration_of(tool: Any) -> Declaration:
    """Return what `tool` declares by its attributes of these names.

    An attribute with an unknown value is ignored: a mock has every attribute, and a typing error
    must not make a tool look safer than it is.
    """
    effect: Any = getattr(tool, "effect", None)
    seconds: Any = getattr(tool, "deadline_seconds", None)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return Declaration(
        cast("Effect", effect) if effect in ("pure", "idempotent") else "unsafe",
        float(seconds) if is_number and seconds > 0 else None,
        getattr(tool, "output_trusted", None) is True,
    )
