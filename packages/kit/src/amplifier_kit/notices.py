"""A line for the person: what a module does differently than was asked, in plain words."""

from __future__ import annotations

import logging
from typing import Any, Literal

logger = logging.getLogger(__name__)

Level = Literal["info", "warning", "error"]


def show(coordinator: Any, message: str, level: Level = "warning", *, source: str) -> None:
    """Show `message` through the app's display system, or log it when the app has none.

    Before that, whoever offers the capability `redaction.text` takes the secrets out.
    """
    display = getattr(coordinator, "display_system", None)
    find = getattr(coordinator, "get_capability", None)
    try:
        blank: Any = None if find is None else find("redaction.text")
        text = message if blank is None else blank(message)
        if display is None:
            at = logging.INFO if level == "info" else logging.WARNING
            logger.log(at, "%s: %s", source, text)
        else:
            display.show_message(text, level, source)
    except Exception:
        # A line that cannot be shown must not end the work it was to report on.
        logger.exception("line not shown source=%s", source)
