"""Attributes of spans and metrics, as they may leave: short, plainly visible, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from amplifier_kit.secrets.scrubber import Scrubber
from amplifier_sandbox.visible_text import exact

# Names, ids and reasons, which a model, its provider or a server makes up.
_LONGEST = 256
_MOST_ITEMS = 8


def plain(about: Mapping[str, Any], scrubber: Scrubber) -> dict[str, Any]:
    """Return attributes with every text in them made plain."""
    return {key: _plain(value, scrubber) for key, value in about.items() if value is not None}


def plain_text(text: str, scrubber: Scrubber) -> str:
    """Return a text that somebody else made up, as a name may be."""
    # Cut twice: a secret that the limit would cut in half is blanked in between.
    clean, _ = scrubber.scrub_text(text[: 4 * _LONGEST])
    return exact(clean[:_LONGEST])[:_LONGEST]


def _plain(value: Any, scrubber: Scrubber) -> Any:
    if isinstance(value, str):
        return plain_text(value, scrubber)
    if isinstance(value, list):
        items = cast("list[Any]", value)[:_MOST_ITEMS]
        return [plain_text(str(each), scrubber) for each in items]
    return value
