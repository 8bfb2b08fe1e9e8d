"""Text that a person is shown: nothing in it acts on the terminal, and nothing hides."""

from __future__ import annotations

import unicodedata


def spelled(character: str) -> str:
    """Return a character that shows itself, or else the number it has."""
    # Letters, marks, numbers, punctuation and symbols show themselves.
    if character == " " or unicodedata.category(character)[0] in "LMNPS":
        return character
    return f"<U+{ord(character):04X}>"
