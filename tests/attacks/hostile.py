"""Text that acts on a terminal or hides on it, and a look for any of it in what was printed."""

from __future__ import annotations

import re

# Clipboard, title, erased screen, coloured text, a link, C1 codes, a device query, backspaces,
# turned writing, delete, next line, an overwritten line, the cursor moved up, invisible letters.
EVIL = (
    "A\x1b]52;c;cm0gLXJmIH4=\x07B\x1b]0;OWNED\x07C\x1b[2J\x1b[1;31mD"
    "\x1b]8;;http://evil.example/\x1b\\link\x1b]8;;\x1b\\ \x9d52;c;eA==\x9c \x9b31mE \x1bP1$q\x1b\\"
    " F\x08\x08\x08G \u202egnp.exe\u202c \x7f \x85 \r over\x1b[1A\x1b[2K"
    " \u200b\u2066\u3164\u2800\u034f\ufe01\U000e0100\U000e0041"
)
# Of escape codes, only colours and what a spinner needs are ours; none in a pipe.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\U000e0000-\U000e0fff]"
)


def acting(printed: str) -> list[str]:
    """Return what in a text would act on a terminal, or hide on it."""
    return [f"U+{ord(each):04X}" for each in _ACTING.findall(printed)]
