"""Blanking the secrets of a conversation, without harm to what vendors want back unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, cast

from amplifier_kit.secrets.known import known_secrets
from amplifier_kit.secrets.scrubber import Scrubber

# The fields of a content block that a person could read; whatever else it has is the vendor's.
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

# What is left of a block that the model made when there was a secret in it. A signature would no
# longer be true, and the vendor's own copy of the text still has the secret.
_LEFT = {
    "text": ("type", "text", "visibility"),
    "thinking": ("type", "thinking", "visibility"),
    "tool_call": ("type", "id", "name", "input", "visibility"),
    "tool_use": ("type", "id", "name", "input", "visibility"),
}


class MessageScrubber:
    """Blanks what is known and what looks like a secret."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._scrubber = Scrubber()
        self._blanked: Counter[str] = Counter()
        self.learn()

    def learn(self) -> None:
        """Read the known secrets anew."""
        self._scrubber.known = known_secrets(self._coordinator)

    def take_blanked(self) -> dict[str, int]:
        """Return how many of each kind were blanked since this was last asked."""
        blanked = self._blanked
        self._blanked = Counter()
        return dict(blanked)

    def scrub_text(self, text: str) -> str:
        """Return a text without its secrets."""
        clean, found = self._scrubber.scrub_text(text)
        self._blanked += found
        return clean

    def scrub(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return JSON-safe data with messages in it without secrets; itself when there are none."""
        clean, found = self._scrubber.scrub(record, _opaque)
        if not found:
            return record
        self._blanked += found
        return _consistent(record, clean)


def _opaque(fields: dict[str, Any]) -> Collection[str]:
    """Name the fields in which a pattern is met only by chance, and blanking does harm."""
    if _is_block(fields):
        return fields.keys() - _READABLE[fields["type"]]
    if "role" in fields:
        return _OF_MESSAGES | _ANYWHERE
    if "arguments" in fields or "function" in fields:
        return _OF_CALLS | _ANYWHERE
    return _ANYWHERE


def _is_block(fields: dict[str, Any]) -> bool:
    """Whether it is a content block; what only shares the type of one is data of a tool."""
    readable = _READABLE.get(str(fields.get("type")))
    return readable is not None and (not readable or not readable.isdisjoint(fields))


def _consistent(before: Any, after: Any) -> Any:
    """Return what was scrubbed; of a changed block that the model made, only what still holds."""
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
