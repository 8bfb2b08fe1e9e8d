"""What a bundle names and is used without. Loaded only when there is such a thing."""

from __future__ import annotations

from textwrap import shorten
from typing import NamedTuple

from amplifier_foundation.bundles.bundle import Place
from amplifier_foundation.errors import FoundationError

__all__ = ["Missing"]

_LONGEST_WHY = 300


class Missing(NamedTuple):
    """What a bundle names and is used without, because it is not there."""

    kind: str
    reference: str
    named_in: str
    why: str

    @classmethod
    def of(cls, kind: str, reference: str, place: Place, error: FoundationError) -> Missing:
        """Return what is missing according to an error."""
        # That it is not there is said already, with its name.
        message = error.message.replace(f"There is no `{reference}`.", "")
        why = " ".join(f"{message} {error.why}".split())
        return cls(kind, reference, place.origin, shorten(why, _LONGEST_WHY, placeholder=" …"))

    def __str__(self) -> str:
        return f"The {self.kind} `{self.reference}` of `{self.named_in}` is missing: {self.why}"
