"""Whether a command makes Python import code from the folder that it is started in."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["searches_folder"]

_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def searches_folder(argv: Sequence[str]) -> bool:
    """Tell whether a command runs `python -m` or `python -c` without `-P` or `-I`.

    Python then imports from the current folder before anything that is installed. A command that
    a shell or `env` starts counts too.
    """
    words = [word for part in argv for word in part.split()]
    starts = (at for at, word in enumerate(words) if _PYTHON.fullmatch(word))
    return any(_searches(words[at + 1 :]) for at in starts)


def _searches(options: list[str]) -> bool:
    waiting = iter(options)
    for option in waiting:
        if not option.startswith("-") or option in ("-", "--"):
            return False
        if option in _WITH_VALUE:
            next(waiting, None)
            continue
        if option.startswith(("--", "-W", "-X")):
            continue
        # Options can be combined, as in `-Im`; the rest after `m` or `c` is their value.
        for letter in option[1:]:
            if letter in "PI":
                return False
            if letter in "mc":
                return True
    return False
