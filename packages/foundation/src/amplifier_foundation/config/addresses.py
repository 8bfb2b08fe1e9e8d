"""Addresses in a text: which there are, and the origin that a user has to grant for each."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["UNREADABLE", "is_address_key", "origins_in"]

# An address that programs read in different ways has an origin that begins like this. It cannot
# be granted: nobody can say where the requests would go.
UNREADABLE = "unreadable: "

# `https://` and `git+ssh://`, and the same with backslashes, which some programs read as slashes.
_WITH_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):([\\/]{2})")
# Programs differ about `https:/host`, `https:host` and `https:///host`.
_ODD_SLASHES = re.compile(
    r"(?:^|[\s=,;\"'(<|])(?:https?|wss?|ftps?|grpcs?):(?!//[^/\\])(?=\S)", re.IGNORECASE
)
_NEEDS_HOST = re.compile(r"(?:^|\+)(?:https?|wss?|ftps?|grpcs?|ssh)$")
# What gRPC and others take for an address without any slashes.
_TARGET = re.compile(
    r"(?:^|[\s=])((?:unix|unix-abstract|ipv4|ipv6|dns|vsock|xds|tcp|udp|ssl|tls|socks[45]?h?)"
    r":(?!//)\S+)",
    re.IGNORECASE,
)
_WITHOUT_SCHEME = re.compile(r"(?:^|=)\s*([\\/]{2})(?=[^\\/\s])")
_HOST_AND_PORT = re.compile(
    r"(?:^|[\s=,;\"'(@])((?:[A-Za-z0-9_-]+\.)+[A-Za-z0-9_-]+\.?|localhost|\[[0-9A-Fa-f:.]+\])"
    r":(\d{1,5})(?=$|[/\s,;\"')?#])"
)
_LIKE_SCP = re.compile(r"[\w.-]+@([\w.-]+):[^\s]*")

_PLAIN_HOST = re.compile(
    r"(?P<host>[A-Za-z0-9*_-]+(?:\.[A-Za-z0-9*_-]+)*|\[[0-9A-Fa-f:.]+\])\.?"
    r"(?::(?P<port>[0-9]{0,5}))?"
)
_PLAIN_USER = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:%-]*")
_END = re.compile(r"[/?#\s]")
# Parsers of addresses drop these characters, so that what stands behind them joins the host.
_DROPPED = re.compile(r"[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202f\u2060\ufeff]")
_OTHER_DOTS = str.maketrans("\u3002\uff0e\uff61\u2024", "....")
_DEFAULT_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443"}

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# With an `s` at the end they count too.
_ADDRESS_WORDS = frozenset(
    {
        "addr",
        "address",
        "addresse",
        "broker",
        "domain",
        "dsn",
        "endpoint",
        "gateway",
        "host",
        "hostname",
        "origin",
        "peer",
        "proxie",
        "proxy",
        "socket",
        "uri",
        "upstream",
        "url",
        "webhook",
    }
)
_ADDRESS_KEYS = frozenset({"api_base", "apibase", "openai_api_base"})
# A number as large as this in place of a host is an IPv4 address.
_LARGEST_PORT = 65_535


def is_address_key(key: str) -> bool:
    """Tell whether the name of a key says that its value is an address, whatever it looks like."""
    words = {word.lower() for word in _WORDS.findall(key)}
    words |= {word.removesuffix("s") for word in words}
    return bool(words & _ADDRESS_WORDS) or key.lower() in _ADDRESS_KEYS


def origins_in(value: object, *, named: bool = False) -> list[str]:
    """Return the origin of each address in a value whose variables are expanded.

    An origin is `scheme://host:port`; without a scheme, the host and its port. With `named`, the
    value is meant as an address, so that a bare host counts too. An origin is printable ASCII.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return [str(value)] if named and value > _LARGEST_PORT else []
    if not isinstance(value, str) or not value.strip():
        return []
    return list(dict.fromkeys(_origins(value.strip(" \t\r\n"), named=named)))


def _origins(text: str, *, named: bool) -> Iterator[str]:
    found = list(_by_syntax(text)) or (list(_bare(text)) if named else [])
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text).translate(_OTHER_DOTS)
        if found != (list(_by_syntax(plain)) or (list(_bare(plain)) if named else [])):
            # It has characters that only some programs take for letters, dots or slashes.
            found = [None]
    for origin in found:
        yield _unreadable(text) if origin is None else origin


def _by_syntax(text: str) -> Iterator[str | None]:
    """Yield the origin of each address that can be told from other text; None: unreadable."""
    rest = text
    for match in _WITH_SCHEME.finditer(text):
        begins = match.start() == 0 or text[match.start() - 1] == "="
        if begins and _DROPPED.search(text) or "\\" in match[2]:
            yield None
        else:
            yield from _with_scheme(match[1].lower(), text[match.end() :], whole=begins)
        end = _END.search(text, match.end())
        stop = end.start() if end else len(text)
        rest = rest[: match.start()] + " " * (stop - match.start()) + rest[stop:]
    if _ODD_SLASHES.search(rest):
        yield None
    for match in _TARGET.finditer(rest):
        yield None if _DROPPED.search(match[1]) else match[1]
    for match in _WITHOUT_SCHEME.finditer(rest):
        if "\\" in match[1]:
            yield None
        else:
            origin = _authority(rest[match.end() :], "")
            yield None if origin is None else f"//{origin}"
    for match in _HOST_AND_PORT.finditer(rest):
        yield _authority(f"{match[1]}:{match[2]}", "")
    if like_scp := _LIKE_SCP.fullmatch(rest):
        yield f"ssh://{like_scp[1].lower()}"


def _with_scheme(scheme: str, rest: str, *, whole: bool) -> Iterator[str | None]:
    authority = _END.split(rest, maxsplit=1)[0]
    if not authority:
        # `file:///x` leads to no other machine, and `unix:///x` has its path for a host.
        if _NEEDS_HOST.search(scheme):
            yield None
        elif not scheme.endswith("file"):
            token = rest.split(maxsplit=1)[0] if rest.strip() else ""
            yield f"{scheme}://{token}" if token.isascii() and token.isprintable() else None
        return
    if not whole and "@" not in authority:
        # In the middle of a text, what closes a quotation is no part of the address.
        authority = authority.rstrip("\"'`)>],;.")
    origin = _authority(authority, scheme)
    yield None if origin is None else f"{scheme}://{origin}"


def _bare(text: str) -> Iterator[str | None]:
    """Yield the origin of a value that is meant as an address: a host, with or without a port."""
    if _WITH_SCHEME.match(text):
        # Only `file:` is left, which leads to no other machine.
        return
    if text.startswith(("/", ".")):
        # A path on a host that is named elsewhere; but a socket is one by itself.
        if text.endswith((".sock", ".socket")):
            yield f"unix:{text}"
        return
    for host in re.split(r"[\s,;]+", text):
        yield None if _DROPPED.search(text) else _authority(host, "")


def _authority(text: str, scheme: str) -> str | None:
    """Return `host:port` in the one way to write it, or None when it can be read in two ways."""
    authority = _END.split(text, maxsplit=1)[0]
    user, _, host = authority.rpartition("@")
    match = _PLAIN_HOST.fullmatch(host)
    if match is None or "@" in user or not _PLAIN_USER.fullmatch(user):
        return None
    name = match["host"].lower()
    port = match["port"] or ""
    port = str(int(port)) if port else ""
    if not port or port == _DEFAULT_PORTS.get(scheme):
        return name
    return f"{name}:{port}"


def _unreadable(text: str) -> str:
    return UNREADABLE + ascii(text)[1:-1][:200]
