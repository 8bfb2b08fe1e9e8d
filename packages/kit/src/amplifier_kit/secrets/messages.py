"""Blanking the secrets of a conversation, but not in what vendors need back unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, cast

from amplifier_kit.secrets.known import known_secrets
from amplifier_kit.secrets.scrubber import Scrubber

# The fields of a content block with readable text; its other fields are the vendor's.
_READABLE = {
    "image": frozenset[str](),
    "reasoning": frozenset({"summary"}),
    "redacted_thinking": frozenset[str](),
    "text": frozenset({"text"}),
    "thinking": frozenset({"thinking"}),
    "tool_call": frozenset({"input"}),
    "tool_result": frozenset({"output", "content"}),
    "tool_use": frozenset({"input"}),
}
_OF_MESSAGES = frozenset({"role", "name", "tool_call_id", "metadata"})
_OF_CALLS = frozenset({"id"})
_ANYWHERE = frozenset({"signature", "thought_signature", "thoughtSignature", "encrypted_content"})

# The fields that stay of a model's block with a secret in it. Its signature does not fit the
# blanked text, and a vendor's own copy of the text still has the secret.
_LEFT = {
    "text": ("type", "text", "visibility"),
    "thinking": ("type", "thinking", "visibility"),
    "tool_call": ("type", "id", "name", "input", "visibility"),
    "tool_use": ("type", "id", "name", "input", "visibility"),
}


class MessageScrubber:
    """Blanks known secrets, and what looks like one, in messages."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._scrubber = Scrubber()
        self._blanked: Counter[str] = Counter()
        self.learn()

    def learn(self) -> None:
        """Reload the known secrets."""
        self._scrubber.known = known_secrets(self._coordinator)

    def take_blanked(self) -> dict[str, int]:
        """Return how many of each kind were blanked since the last call."""
        blanked = self._blanked
        self._blanked = Counter()
        return dict(blanked)

    def scrub_text(self, text: str) -> str:
        """Return a text without its secrets."""
        clean, found = self._scrubber.scrub_text(text)
        self._blanked += found
        return clean

    def scrub(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return JSON-safe data with messages, without secrets; the same object if it has none."""
        clean, found = self._scrubber.scrub(record, _opaque)
        if not found:
            return record
        self._blanked += found
        return _consistent(record, clean)


def _opaque(fields: dict[str, Any]) -> Collection[str]:
    """Name the fields in which a pattern matches only by chance, and blanking does harm."""
    if _is_block(fields):
        return fields.keys() - _READABLE[fields["type"]]
    if "role" in fields:
        return _OF_MESSAGES | _ANYWHERE
    if "arguments" in fields or "function" in fields:
        return _OF_CALLS | _ANYWHERE
    return _ANYWHERE


def _is_block(fields: dict[str, Any]) -> bool:
    """Whether it is a content block, and not data of a tool with the same `type`."""
    readable = _READABLE.get(str(fields.get("type")))
    return readable is not None and (not readable or not readable.isdisjoint(fields))


def _consistent(before: Any, after: Any) -> Any:
    """Return the scrubbed data; a changed block of the model keeps only its `_LEFT` fields."""
    if isinstance(before, list):
        pairs = zip(cast("list[Any]", before), cast("list[Any]", after), strict=True)
        return [_consistent(*pair) for pair in pairs]
    if not isinstance(before, dict) or before == after:
        return after
    had = cast("dict[str, Any]", before)
    fields = cast("dict[str, Any]", after)
    if _is_block(had) and (left := _LEFT.get(had["type"])):
        return {key: fields[key] for key in left if key in fields}
    return {key: _consistent(had.get(key), value) for key, value in fields.items()}
