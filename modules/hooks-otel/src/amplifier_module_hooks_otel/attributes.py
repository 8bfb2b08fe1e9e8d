"""Attributes of spans and metrics, made safe to export: short, visible, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from amplifier_kit.secrets.scrubber import Scrubber
from amplifier_sandbox.visible_text import exact

# For names, ids and reasons, which come from a model, its provider or a server. The SDK's own
# limits do not help: an app's provider may have none.
_LONGEST = 256
_MOST_ITEMS = 8


def plain(about: Mapping[str, Any], scrubber: Scrubber) -> dict[str, Any]:
    """Return attributes with every text in them made safe."""
    return {key: _plain(value, scrubber) for key, value in about.items() if value is not None}


def plain_text(text: str, scrubber: Scrubber) -> str:
    """Return an untrusted text as a name: short, visible and without secrets."""
    # Cut before and after: a secret that the second cut would halve is blanked in between.
    clean, _ = scrubber.scrub_text(text[: 4 * _LONGEST])
    return exact(clean[:_LONGEST])[:_LONGEST]


def _plain(value: Any, scrubber: Scrubber) -> Any:
    if isinstance(value, str):
        return plain_text(value, scrubber)
    if isinstance(value, list):
        items = cast("list[Any]", value)[:_MOST_ITEMS]
        return [plain_text(str(each), scrubber) for each in items]
    return value
