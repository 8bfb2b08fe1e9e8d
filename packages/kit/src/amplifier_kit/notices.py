"""A line for the person: what a module does differently than was asked, in plain words."""

from __future__ import annotations

import logging
from typing import Any, Literal

logger = logging.getLogger(__name__)

Level = Literal["info", "warning", "error"]


def show(coordinator: Any, message: str, level: Level = "warning", *, source: str) -> None:
    """Show `message` through the app's display system, or log it when the app has none."""
    display = getattr(coordinator, "display_system", None)
    if display is None:
        logger.log(logging.INFO if level == "info" else logging.WARNING, "%s: %s", source, message)
        return
    try:
        display.show_message(message, level, source)
    except Exception:
        # A broken display must not end the work it was to report on.
        logger.exception("display failed source=%s message=%s", source, message)
