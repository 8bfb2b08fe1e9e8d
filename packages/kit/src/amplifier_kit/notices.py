"""Messages for the user: what a module does differently than was asked, in plain words."""

from __future__ import annotations

import logging
from typing import Any, Literal

logger = logging.getLogger(__name__)

Level = Literal["info", "warning", "error"]

# A message may quote an MCP server or a provider, which could fill the screen with it.
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

    The capability `redaction.text`, if a module offers it, removes secrets first.
    """
    display = getattr(coordinator, "display_system", None)
    find = getattr(coordinator, "get_capability", None)
    try:
        blank: Any = None if find is None else find("redaction.text")
        # Secrets are removed before the cut, because half a secret is not recognized. The first
        # cut bounds the time of that search.
        message = message[:_MOST_CHARS_READ]
        text = bounded(message if blank is None else blank(message))
        if display is None:
            at = logging.INFO if level == "info" else logging.WARNING
            logger.log(at, "%s: %s", source, text)
        else:
            display.show_message(text, level, source)
    except Exception:
        # A message that cannot be shown must not end the work that it reports on.
        logger.exception("line not shown source=%s", source)


def absence_capability(module_id: str) -> str:
    """Return the capability under which a module says why it mounted nothing."""
    return f"{module_id}.absence"
