"""What a tool says of itself: what calling it does, for how long, and whether to believe it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

__all__ = ["Declaration", "Effect", "declaration_of"]

# pure: changes nothing; idempotent: twice is as good as once; unsafe: never again unasked.
Effect = Literal["pure", "idempotent", "unsafe"]


class Declaration(NamedTuple):
    """The three things; what a tool does not say is taken for the worst."""

    effect: Effect = "unsafe"
    # Seconds that one call may take; None leaves it to the loop.
    deadline_seconds: float | None = None
    # Whether its output is the word of somebody the person trusts.
    output_trusted: bool = False


def declaration_of(tool: Any) -> Declaration:
    """Return what `tool` declares by its attributes of these names.

    An attribute that is none of the known values counts as not there: a double may have any
    attribute one asks for, and a typing error must not make a tool look safer than it is.
    """
    effect: Any = getattr(tool, "effect", None)
    seconds: Any = getattr(tool, "deadline_seconds", None)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return Declaration(
        cast("Effect", effect) if effect in ("pure", "idempotent") else "unsafe",
        float(seconds) if is_number and seconds > 0 else None,
        getattr(tool, "output_trusted", None) is True,
    )
