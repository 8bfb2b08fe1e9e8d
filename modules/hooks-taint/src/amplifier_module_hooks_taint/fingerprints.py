"""Fingerprints of texts: short digests to recognise a text, from which it cannot be read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from html import unescape
from socket import inet_aton, inet_ntoa
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

_SEPARATORS = re.compile(r"""[\s"'<>()\[\]{},;|`=\\]+""")
_NOISE = re.compile(r"[\W_]+")
_EDGES = ".:!?*_-#&$"
_SHELL_QUOTES = re.compile(r"""["'\\`]""")
# Everything that programs accept as an IPv4 address: one to four numbers, in base 8, 10 or 16.
_NUMBERS = re.compile(r"(0x[0-9a-f]+|[0-9]+)(\.(0x[0-9a-f]+|[0-9]+)){0,3}")
# A text may be encoded more than once, such as `%2541` for `A`.
_MOST_ENCODINGS = 3
# Shorter names are too common to prove anything; a code with digits of this length is not.
_SHORTEST_NAME = 5
_SHORTEST_CODE = 10
_LONGEST_NAME = 2_000


class Print(NamedTuple):
    """One digest, and the words it was made of."""

    digest: str
    words: str


def normalized(text: str) -> str:
    """Return a text without its encodings, in small letters and normalised characters."""
    plain = text
    for _ in range(_MOST_ENCODINGS):
        decoded = unescape(unquote(plain))
        if decoded == plain:
            break
        plain = decoded
    return unicodedata.normalize("NFKC", plain).casefold()


def kept_prints(text: str, block: int) -> Iterator[Print]:
    """Yield the prints to keep of a text: of its names, and of consecutive blocks of letters."""
    return _prints(text, block, step=block)


def all_prints(text: str, block: int) -> Iterator[Print]:
    """Yield all prints that another text may have kept of this one.

    Blocks at every position: of any run of `2 * block - 1` letters and digits that two texts share,
    one text has kept a whole block, which is found here. A shell ignores quotes and backslashes
    inside a name, so names are also tried without them.
    """
    yield from _prints(text, block, step=1)
    unquoted = _SHELL_QUOTES.sub("", text)
    if unquoted != text:
        for chunk in _chunks(unquoted):
            yield from _name_prints(chunk)


def passage(text: str, words: str, around: int = 40) -> str:
    """Return the passage of a text that has these words."""
    plain = normalized(text)
    found = re.search(r"[\W_]*".join(map(re.escape, words)), plain)
    if found is None:
        return words
    return plain[max(0, found.start() - around) : found.end() + around].strip()


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, keys and numbers included."""
    if isinstance(value, dict):
        for key, nested in cast("dict[Any, Any]", value).items():
            yield str(key)
            yield from texts_in(nested)
    elif isinstance(value, list | tuple):
        for nested in cast("list[Any]", value):
            yield from texts_in(nested)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _prints(text: str, block: int, step: int) -> Iterator[Print]:
    for chunk in _chunks(text):
        yield from _name_prints(chunk)
    squeezed = _NOISE.sub("", normalized(text))
    for start in range(0, len(squeezed) - block + 1, step):
        words = squeezed[start : start + block]
        yield Print(_digest(words), words)


def _chunks(text: str) -> list[str]:
    return _SEPARATORS.split(normalized(text))


def _name_prints(chunk: str) -> Iterator[Print]:
    if len(chunk) <= _LONGEST_NAME:
        for name in _names_in(chunk.strip(_EDGES)):
            yield Print(_digest(f"name {name}"), name)


def _digest(words: str) -> str:
    return blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _names_in(chunk: str) -> Iterator[str]:
    """Yield the addresses, hosts, paths and codes in a chunk without spaces."""
    _, scheme, address = chunk.rpartition("://")
    if scheme:
        yield address.rstrip("/")
        chunk = address
    authority, slash, path = chunk.partition("/")
    host = _canonical(authority.rpartition("@")[2].partition(":")[0].strip(_EDGES))
    if _is_name(host):
        yield host
    if "@" in authority and _is_name(host):
        yield authority.partition(":")[0]
    if slash:
        yield from _path_names(f"{authority}/{path.partition('?')[0]}")
    elif len(chunk) >= _SHORTEST_CODE and any(map(str.isdigit, chunk)):
        yield chunk


def _canonical(host: str) -> str:
    """Return the canonical spelling of a host: four numbers, or a name in its own script."""
    if _NUMBERS.fullmatch(host):
        with suppress(OSError):
            return inet_ntoa(inet_aton(host))
    if "xn--" in host:
        with suppress(UnicodeError):
            return host.encode("ascii").decode("idna")
    return host


def _path_names(path: str) -> Iterator[str]:
    parts = [each for each in path.split("/") if each.strip("~.")]
    if len(parts) > 1:
        # The last two parts: the same file may be named from another folder, or from home.
        yield "/".join(parts[-2:])
    if parts and _is_name(parts[-1]):
        yield parts[-1]


def _is_name(text: str) -> bool:
    """Whether this looks like a host or a file: with a dot inside."""
    return len(text) >= _SHORTEST_NAME and "." in text.strip(".")
