"""Events that are a line of the conversation by themselves."""

from __future__ import annotations

from typing import Any

from amplifier_cli.render.items import Item, Notice, Prompt
from amplifier_cli.render.plain import duration

LINES = ("provider:retry", "orchestrator:steering_injected", "hook:failed")


def event_item(name: str, data: dict[str, Any]) -> Item | None:
    """Return the line that an event puts on the screen; most put none."""
    if name == "orchestrator:steering_injected":
        return Prompt(str(data.get("text", "")), steers=True)
    if name == "provider:retry":
        delay = data.get("delay")
        if isinstance(delay, int | float):
            wait = f" in {duration(delay)}"
        else:
            wait = ""
        return Notice(f"{data.get('error_type')}: trying again{wait}.", "warning", "provider")
    if name == "hook:failed":
        line = f"{data.get('handler')} failed on {data.get('event')}: {data.get('error')}"
        return Notice(line, "warning", "hooks")
    return None
