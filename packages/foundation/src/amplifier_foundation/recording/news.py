"""What an event says that no other record of the log does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core import events
from amplifier_foundation.recording.plain import has_long_text, shortened

Scrub = Callable[[dict[str, Any]], dict[str, Any]]

# What these carry is in the record of the call that they are about.
_RECORDED_APART = {
    events.PROVIDER_RESPONSE: ("response",),
    events.CONTENT_BLOCK_END: ("block", "usage"),
    events.TOOL_POST: ("result", "tool_result"),
}


def news_in(event: str, data: dict[str, Any], coordinator: Any, scrub: Scrub) -> dict[str, Any]:
    """Return the data of an event without what is recorded apart, and what every event has.

    Long texts are shortened; secrets are taken out before, because a part of one is not found.
    """
    own = {"session_id": coordinator.session_id, "parent_id": coordinator.parent_id}
    known = _RECORDED_APART.get(event, ())
    facts = {
        key: value
        for key, value in data.items()
        if key != "timestamp" and key not in known and not (key in own and own[key] == value)
    }
    if has_long_text(facts):
        return shortened(scrub(facts))
    return facts
