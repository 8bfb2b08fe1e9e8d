"""Blobs: the large strings of all sessions, each stored once, named by its hash."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from amplifier_kit.durable_files import make_private_folder, remove_unfinished, write_whole
from amplifier_sandbox.platforms.locks import locked

LARGE = 64 * 1024  # characters; a longer string does not stay in its record
BLOB = "$blob"
PLAIN = "$plain"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """Strings in files below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, text: str) -> str:
        """Store `text` durably, unless it is stored already; return its name."""
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        # Compared by content: a file that has rotted must not pass for this string.
        if _read(path) != data:
            make_private_folder(path.parent)
            write_whole(path, data)
        return digest

    def get(self, digest: str) -> str | None:
        """Return the string of that name; None if it is missing or damaged."""
        if _DIGEST.fullmatch(digest):
            data = _read(self._path(digest))
        else:
            data = None
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            return None
        return data.decode("utf-8", "surrogatepass")

    @contextmanager
    def in_use(self, *, alone: bool = False) -> Generator[None]:
        """Keep blobs from being swept until their record is written; `alone` is for the sweep."""
        make_private_folder(self._folder)
        with locked(self._folder / ".lock", shared=not alone):
            yield

    def each(self) -> Iterator[tuple[str, Path, int]]:
        """Yield the name, file and size of every blob."""
        for path in sorted(self._folder.glob("[0-9a-f][0-9a-f]/*")):
            if _DIGEST.fullmatch(path.name):
                yield path.name, path, path.stat().st_size

    def remove_unfinished(self) -> None:
        """Remove what killed processes left; call this inside `in_use(alone=True)`."""
        for folder in self._folder.glob("[0-9a-f][0-9a-f]"):
            remove_unfinished(folder)

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest


def shelve(value: Any, put: Callable[[str], str]) -> Any:
    """Return `value` with each large string replaced by a reference to its blob.

    Data that only looks like a reference is wrapped, so that it cannot read another session's blob.
    """
    if isinstance(value, str):
        if len(value) > LARGE:
            return {BLOB: put(value), "chars": len(value)}
        return value
    if isinstance(value, list):
        return [shelve(each, put) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        inside = {key: shelve(each, put) for key, each in fields.items()}
        if BLOB in fields or PLAIN in fields:
            return {PLAIN: inside}
        return inside
    return value


def unshelve(value: Any, get: Callable[[str, Any], Any]) -> Any:
    """Return `value` as it was before `shelve`; `get` is given a digest and its reference."""
    if isinstance(value, list):
        return [unshelve(each, get) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if isinstance(fields.get(BLOB), str):
        return get(fields[BLOB], fields)
    if isinstance(fields.get(PLAIN), dict):
        fields = cast("dict[str, Any]", fields[PLAIN])
    return {key: unshelve(each, get) for key, each in fields.items()}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
