"""Contribution channels: data that modules offer and consumers collect when they need it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypedDict

from amplifier_core._tasks import is_being_cancelled, settled

logger = logging.getLogger(__name__)


class Contributor(TypedDict):
    """Who contributes to a channel, and how to ask."""

    name: str
    callback: Callable[[], Any]


async def collect(channel: str, contributors: list[Contributor]) -> list[Any]:
    """Ask each contributor in turn; None is no contribution, a failure is logged and skipped.

    A contributor that ends in CancelledError ends the collection with what there is by then.
    """
    contributions: list[Any] = []
    for contributor in list(contributors):
        try:
            contribution = await settled(contributor["callback"]())
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            logger.warning(
                "collection ended early channel=%s contributor=%s", channel, contributor["name"]
            )
            break
        except Exception:
            logger.warning(
                "contributor failed channel=%s contributor=%s",
                channel,
                contributor["name"],
                exc_info=True,
            )
            continue
        if contribution is not None:
            contributions.append(contribution)
    return contributions
