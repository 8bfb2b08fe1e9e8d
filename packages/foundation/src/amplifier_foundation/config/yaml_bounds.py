"""How much a YAML text stands for, counted before anything is made of it.

libyaml and PyYAML build nested values by recursion in C, which ends the process when a text of
30,000 brackets is read, and they write merged mappings (`<<`) out before anybody can count them.
Reading the events alone does neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import yaml

__all__ = ["is_bounded"]

# A longer number is none that anybody wrote, and turning it into one takes time by its square.
_NUMBER_CHARS = 1_000
_NUMBER_STARTS = frozenset("+-.0123456789")


def is_bounded(text: str, loader: Any, *, values: int, depth: int) -> bool:
    """Tell whether a text stands for at most so many values, nested at most so deep.

    Every alias counts as all that it stands for. A value that has itself in it is not bounded.

    Raises:
        yaml.YAMLError: it is not valid YAML.
    """
    count = _Count(values, depth)
    events = cast("Iterator[yaml.Event]", yaml.parse(text, Loader=loader))  # pyright: ignore[reportUnknownMemberType] - its stubs leave the text out
    return all(count.take(event) for event in events)


class _Count:
    """Adds up the events of one text, without recursion."""

    def __init__(self, values: int, depth: int) -> None:
        self._most = values
        self._depth = depth
        self._sizes: dict[str, int] = {}
        # The anchor and the size so far of every collection that is open.
        self._open: list[tuple[str | None, int]] = [(None, 0)]

    def take(self, event: yaml.Event) -> bool:
        """Count one event; tells whether the text is still within its bounds."""
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, 1))
            return len(self._open) <= self._depth + 1
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = self._open.pop()
            return self._add(anchor, size)
        if isinstance(event, yaml.AliasEvent):
            # An alias of what is still open, or of nothing, has no size.
            size = self._sizes.get(str(event.anchor))
            return size is not None and self._add(None, size)
        if isinstance(event, yaml.ScalarEvent):
            return not _is_endless_number(event) and self._add(event.anchor, 1)
        return True

    def _add(self, anchor: str | None, size: int) -> bool:
        if anchor is not None:
            self._sizes[anchor] = size
        above, so_far = self._open[-1]
        self._open[-1] = (above, so_far + size)
        return so_far + size <= self._most


def _is_endless_number(event: yaml.ScalarEvent) -> bool:
    text = str(event.value)
    is_plain = bool(event.implicit[0])
    return is_plain and len(text) > _NUMBER_CHARS and text[0] in _NUMBER_STARTS and " " not in text
