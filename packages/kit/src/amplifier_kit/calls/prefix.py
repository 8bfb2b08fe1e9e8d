"""The prompt's prefix as a vendor's cache sees it, and who changed it when the cache missed."""

from __future__ import annotations

from typing import Any, NamedTuple

from amplifier_core.message_models import Message, Usage
from amplifier_kit.module_ids import module_of

# Below this vendors do not cache at all.
SMALLEST_CACHED = 1_024
# A cache that returns this share of the previous request counts as a hit.
_ENOUGH = 0.8


class Prefix(NamedTuple):
    """What one request begins with, in the order in which the vendor reads it.

    `head` are named parts before the conversation: options, each tool, the system text. `body` is
    the wire form of each message, and `messages` are the messages themselves.
    """

    head: list[tuple[str, Any]]
    body: list[Any]
    messages: list[Message]


class Change(NamedTuple):
    """The first segment that is not what it was, and the module it came from, if known."""

    segment: str
    module: str | None


class Miss(NamedTuple):
    """A request that should have been in the vendor's cache and was not."""

    expected_tokens: int
    cache_read_tokens: int
    # None: nothing changed on our side; the vendor dropped the entry, or it expired.
    change: Change | None


class PrefixWatch:
    """Compares each request with the one before; parts are compared by identity, then by value."""

    def __init__(self, coordinator: Any, provider: str) -> None:
        self._coordinator = coordinator
        self._provider = provider
        self._previous: Prefix | None = None
        self._cached = 0

    def judge(self, prefix: Prefix, usage: Usage | None) -> Miss | None:
        """Take an answered request; return a Miss if the cache read less than it should have."""
        previous = self._previous
        self._previous = prefix
        expected = self._cached
        self._cached = _cacheable(usage)
        if usage is None or usage.cache_read_tokens is None or previous is None:
            return None
        if expected < SMALLEST_CACHED or usage.cache_read_tokens >= expected * _ENOUGH:
            return None
        return Miss(expected, usage.cache_read_tokens, self._change(previous, prefix))

    def _change(self, old: Prefix, new: Prefix) -> Change | None:
        for place, (name, value) in enumerate(old.head):
            if place >= len(new.head) or new.head[place] != (name, value):
                changed = new.head[place][0] if place < len(new.head) else name
                return Change(changed, self._origin_of_head(changed))
        if len(new.head) > len(old.head):
            added = new.head[len(old.head)][0]
            return Change(added, self._origin_of_head(added))
        for place, value in enumerate(old.body):
            known = place < len(new.body)
            if known and (new.body[place] is value or new.body[place] == value):
                continue
            message = (new if known else old).messages[place]
            return Change(f"message {place + 1} ({message.role})", self._origin(message))
        return None

    def _origin_of_head(self, name: str) -> str | None:
        kind, _, tool_name = name.partition(" ")
        if kind == "tool":
            tools: dict[str, Any] = self._mounted("tools") or {}
            return module_of(tools.get(tool_name)) or tool_name
        if kind == "system":
            return self._context()
        return self._provider

    def _origin(self, message: Message) -> str | None:
        metadata = message.metadata or {}
        return metadata.get("hook_name") or metadata.get("source") or self._context()

    def _context(self) -> str | None:
        return module_of(self._mounted("context"))

    def _mounted(self, mount_point: str) -> Any:
        # Not through `get`, which returns an interposer's wrapper: that is another module's object.
        return getattr(self._coordinator, "mount_points", {}).get(mount_point)


def _cacheable(usage: Usage | None) -> int:
    """Return how many tokens of a request the vendor's cache can be expected to have."""
    if usage is None or usage.cache_read_tokens is None:
        return 0
    if usage.cache_write_tokens is not None:
        return usage.cache_read_tokens + usage.cache_write_tokens
    return usage.input_tokens // 128 * 128
