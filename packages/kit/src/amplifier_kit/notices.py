"""A line for the person: what a module does differently than was asked, in plain words."""

from __future__ import annotations

import logging
from typing import Any, Literal

logger = logging.getLogger(__name__)

Level = Literal["info", "warning", "error"]


_MOST_LINES = 3
_MOST_CHARS = 1_000
_MOST_CHARS_READ = 10 * _MOST_CHARS


def bounded(message: str) -> str:
    """Return a message in at most three lines that fit on a screen, and say when it was cut."""
    short = message[:_MOST_CHARS]
    lines = short.split("\n", _MOST_LINES)
    short = "\n".join(lines[:_MOST_LINES])
    if short == message:
        return short
    return f"{short} [cut]"


def show(coordinator: Any, message: str, level: Level = "warning", *, source: str) -> None:
    """Show `message` through the app's display system, or log it when the app has none.

    Before that, whoever offers the capability `redaction.text` takes the secrets out.
    """
    display = getattr(coordinator, "display_system", None)
    find = getattr(coordinator, "get_capability", None)
    try:
        blank: Any = None if find is None else find("redaction.text")
        # Secrets first, because half a secret is not recognized; but looking for them takes time.
        message = message[:_MOST_CHARS_READ]
        text = bounded(message if blank is None else blank(message))
        if display is None:
            at = logging.INFO if level == "info" else logging.WARNING
            logger.log(at, "%s: %s", source, text)
        else:
            display.show_message(text, level, source)
    except Exception:
        # A line that cannot be shown must not end the work it was to report on.
        logger.exception("line not shown source=%s", source)
