"""Read YAML from untrusted files as plain data of bounded size."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import yaml

from amplifier_foundation.config.plain_files import open_plain, require_own
from amplifier_foundation.errors import FoundationError
from amplifier_kit.valid_text import valid

# Nobody writes a longer number, and converting one takes quadratic time.
_NUMBER_CHARS = 1_000
_NUMBER_STARTS = frozenset("+-.0123456789")


def is_bounded(text: str, loader: Any, *, values: int, depth: int) -> bool:
    """Return whether a text expands to at most `values` values, nested at most `depth` deep.

    Every alias counts as its whole target. A value that contains itself is not bounded.

    Raises:
        yaml.YAMLError: it is not valid YAML.
    """
    # Events are counted before anything is built: libyaml's binding recurses in C to build, and
    # 30 KB of brackets crash the process.
    count = _Count(values, depth)
    events = cast("Iterator[yaml.Event]", yaml.parse(text, Loader=loader))  # pyright: ignore[reportUnknownMemberType] - its stubs leave the text out
    return all(count.take(event) for event in events)


class _Count:
    """Counts the values of one text from its events, without recursion."""

    def __init__(self, values: int, depth: int) -> None:
        self._most = values
        self._depth = depth
        self._sizes: dict[str, int] = {}
        # The anchor and the size so far of every collection that is open.
        self._open: list[tuple[str | None, int]] = [(None, 0)]

    def take(self, event: yaml.Event) -> bool:
        """Count one event; return whether the text is still within its bounds."""
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, 1))
            return len(self._open) <= self._depth + 1
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = self._open.pop()
            return self._add(anchor, size)
        if isinstance(event, yaml.AliasEvent):
            # An alias to a collection that is still open, or to nothing, has no size.
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


# libyaml reads the same language ten times as fast; a Python without it still works.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Some commands read the settings several times: at 4 MB, `doctor` took a minute.
_MAX_BYTES = 1_000_000
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# Aliases let a few lines stand for billions of values; people write far less.
_MAX_VALUES = 50_000
_MAX_DEPTH = 50


def read_text(path: Path, *, error: type[FoundationError]) -> str:
    """Return the text of a file; raises `error` if it cannot be read or is not text.

    One of the user's own files that another user could have written is not read either.
    """
    return decode(read_bytes(path, error=error), where=str(path), error=error)


def read_bytes(path: Path, *, error: type[FoundationError]) -> bytes:
    """Return the bytes of a file, up to one over the limit, so that `decode` can refuse it."""
    try:
        with open_plain(path) as file:
            require_own(path, error, file=file)
            return file.read(_MAX_BYTES + 1)
    except OSError as unreadable:
        reason = unreadable.strerror or str(unreadable)
        raise error(f"`{path}` cannot be read.", why=f"{reason}.") from unreadable


def decode(data: bytes, *, where: str, error: type[FoundationError]) -> str:
    """Return the bytes of a file as text; raises `error` if there are too many or not UTF-8."""
    if len(data) > _MAX_BYTES:
        raise error(f"`{where}` is too large.", why=f"More than {_MAX_BYTES:,} bytes.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as no_text:
        raise error(f"`{where}` is not UTF-8 text.", why=f"{no_text}.") from no_text


def parse_document(
    path: Path, text: str, *, error: type[FoundationError]
) -> tuple[dict[str, Any], str]:
    """Return the YAML of a bundle's or an agent's file, and the text below it.

    A file that does not end in `.md` is all YAML, whatever its name.
    """
    text = text.replace("\r\n", "\n")
    if path.suffix != ".md":
        return parse_mapping(text, where=str(path), error=error), ""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text.strip()
    front = parse_mapping(match[1], where=str(path), error=error)
    return front, text[match.end() :].strip()


def parse_mapping(text: str, *, where: str, error: type[FoundationError]) -> dict[str, Any]:
    """Return a YAML document as a dict of JSON-safe values; an empty one is an empty dict.

    Keys become strings, and dates their ISO form. Raises `error`, which says in which line.
    """
    try:
        # Doubled, because this count includes the keys.
        if not is_bounded(text, _LOADER, values=2 * _MAX_VALUES, depth=_MAX_DEPTH):
            raise _too_much(where, error)
        found: Any = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as broken:
        place = " ".join(str(broken).split())
        raise error(f"`{where}` is not valid YAML.", why=f"{place}.") from broken
    if found is None:
        return {}
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise error(f"`{where}` must hold keys and values.", why=f"It holds a {kind}.")
    return valid(_Plain(where, error).mapping(cast("dict[Any, Any]", found), 0))


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the closest known word, or an empty text."""
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes pay for it

    close = get_close_matches(word, list(known), n=1)
    if close:
        return f" Did you mean `{close[0]}`?"
    return ""


def _too_much(where: str, error: type[FoundationError]) -> FoundationError:
    limits = f"At most {_MAX_VALUES:,} values, {_MAX_DEPTH} levels deep."
    return error(f"`{where}` holds too much.", why=limits)


class _Plain:
    """Copies one document as JSON-safe data; each use of an alias counts."""

    def __init__(self, where: str, error: type[FoundationError]) -> None:
        self._where = where
        self._error = error
        self._left = _MAX_VALUES

    def mapping(self, found: dict[Any, Any], depth: int) -> dict[str, Any]:
        return {str(key): self._value(value, depth + 1) for key, value in found.items()}

    def _value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            raise _too_much(self._where, self._error)
        if isinstance(value, dict):
            return self.mapping(cast("dict[Any, Any]", value), depth)
        if isinstance(value, list):
            return [self._value(item, depth + 1) for item in cast("list[Any]", value)]
        if isinstance(value, datetime.date):
            return value.isoformat()
        if value is None or isinstance(value, str | int | float):
            return value
        kind = type(value).__name__
        raise self._error(f"`{self._where}` holds a {kind}.", why="It has no place in a plan.")
