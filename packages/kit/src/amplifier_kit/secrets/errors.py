"""Blanking the secrets in an exception before it is printed, recorded or returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

__all__ = ["scrub_error"]

_DEEPEST = 20


def scrub_error(error: BaseException, scrub_text: Callable[[str], str]) -> None:
    """Blank the secrets in an exception, its notes, its causes and those of a group, in place.

    It stays the same exception, so that retries and callers still decide by its type and fields.
    """
    for each in _all_of(error):
        clean = _scrubbed(each.args, scrub_text, _DEEPEST)
        if clean != each.args:
            each.args = clean
        for name, value in list(vars(each).items()):
            clean = _scrubbed(value, scrub_text, _DEEPEST)
            # A field that cannot be compared or set is left as it is.
            with suppress(Exception):
                if clean is not value and clean != value:
                    setattr(each, name, clean)


def _all_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and everything that a traceback would show with it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", each).exceptions
        yield each


def _scrubbed(value: Any, scrub_text: Callable[[str], str], depth: int) -> Any:
    """Return plain data with the secrets in its texts blanked; anything else is unchanged."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, bytes):
        return scrub_text(value.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    if depth == 0:
        return value
    # Exactly these types: a subclass may have another constructor.
    if type(value) is list:
        items = cast("list[Any]", value)
        return [_scrubbed(each, scrub_text, depth - 1) for each in items]
    if type(value) is tuple:
        members = cast("tuple[Any, ...]", value)
        return tuple(_scrubbed(each, scrub_text, depth - 1) for each in members)
    if type(value) is dict:
        fields = cast("dict[Any, Any]", value)
        return {key: _scrubbed(each, scrub_text, depth - 1) for key, each in fields.items()}
    return value
