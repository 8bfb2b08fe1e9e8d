"""Find the addresses in a text, and the origin that a user has to grant for each."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["UNREADABLE", "is_address_key", "origins_in"]

# An address that programs read in different ways has an origin that begins like this. It cannot
# be granted: nobody can say where the requests would go.
UNREADABLE = "unreadable: "

# What follows a scheme; some programs read backslashes as slashes. The scheme is searched
# backwards from here, which takes linear time for any text.
_SLASHES = re.compile(r":([\\/]{2})")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_LONGEST_SCHEME = 40
_LONGEST_HOST = 1_000
# A text of a megabyte would take minutes to search, and no user could check it.
_LONGEST_TEXT = 20_000
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
_PATH = re.compile(r"[/?#]")
# URL parsers drop these characters, so that what follows them becomes part of the host.
_DROPPED = re.compile(r"[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202f\u2060\ufeff]")
_OTHER_DOTS = str.maketrans("\u3002\uff0e\uff61\u2024", "....")
_DEFAULT_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443"}

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# A final `s` is removed before the comparison: `addresse` and `proxie` are what plurals leave.
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
    """Return whether the name of a key says that its value is an address."""
    words = {word.lower() for word in _WORDS.findall(key)}
    words |= {word.removesuffix("s") for word in words}
    return bool(words & _ADDRESS_WORDS) or key.lower() in _ADDRESS_KEYS


def origins_in(value: object, *, named: bool = False) -> list[str]:
    """Return the origin of each address in a value whose variables are expanded.

    An origin is `scheme://host:port`; without a scheme, the host and its port. With `named`, the
    value is meant as an address, so that a bare host counts too. An origin is printable ASCII.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if named and value > _LARGEST_PORT:
            return [str(value)]
        return []
    if not isinstance(value, str) or not value.strip():
        return []
    return list(_origins(value.strip(" \t\r\n"), named=named))


def _origins(text: str, *, named: bool) -> Iterator[str]:
    if len(text) > _LONGEST_TEXT:
        if ":" in text or "//" in text or named:
            yield _unreadable(text)
        return
    found = list(_by_syntax(text)) or (list(_bare(text)) if named else [])
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text).translate(_OTHER_DOTS)
        if found != (list(_by_syntax(plain)) or (list(_bare(plain)) if named else [])):
            # Some programs read its characters as ASCII letters, dots or slashes; others do not.
            found = [None]
    for origin in dict.fromkeys(found):
        yield _unreadable(text) if origin is None else origin


def _by_syntax(text: str) -> Iterator[str | None]:
    """Yield the origin of each address that is recognisable by its syntax; None: unreadable."""
    has_dropped = _DROPPED.search(text) is not None
    others: list[str] = []
    done = 0
    for match in _SLASHES.finditer(text):
        found = _SCHEME.search(text[max(0, match.start() - _LONGEST_SCHEME) : match.start()])
        scheme = found[0].lower() if found else ""
        start = match.start() - len(scheme)
        begins = start == 0 or text[start - 1] == "="
        if "\\" in match[1] or (begins and has_dropped):
            yield None
        else:
            rest = text[match.end() : match.end() + _LONGEST_HOST]
            yield from _with_scheme(scheme, rest, whole=begins)
        end = _END.search(text, match.end())
        others.append(text[done : max(done, start)])
        done = max(done, end.start() if end else len(text))
    yield from _without_scheme(" ".join([*others, text[done:]]))


def _without_scheme(text: str) -> Iterator[str | None]:
    """Yield the origins in a text from which addresses with a scheme were removed."""
    if _ODD_SLASHES.search(text):
        yield None
    for match in _TARGET.finditer(text):
        target = match[1]
        yield target if target.isascii() and target.isprintable() else None
    for match in _WITHOUT_SCHEME.finditer(text):
        origin = _authority(text[match.end() : match.end() + _LONGEST_HOST], "")
        yield f"//{origin}" if origin is not None and "\\" not in match[1] else None
    for match in _HOST_AND_PORT.finditer(text):
        yield _authority(f"{match[1]}:{match[2]}", "")
    if like_scp := _LIKE_SCP.fullmatch(text):
        yield f"ssh://{like_scp[1].lower()}" if like_scp[1].isascii() else None


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
    if whole and "@" in _PATH.split(rest, maxsplit=1)[0][len(authority) :]:
        # `https://good.example @evil.example`: Python's own parser connects to the second host.
        yield None
        return
    if not whole and "@" not in authority:
        # Inside a text, closing quotes and punctuation are not part of the address.
        authority = authority.rstrip("\"'`)>],;.")
    origin = _authority(authority, scheme)
    yield None if origin is None else f"{scheme}://{origin}"


def _bare(text: str) -> Iterator[str | None]:
    """Yield the origin of a value that is meant as an address: a host, with or without a port."""
    if _SLASHES.search(text):
        # Only `file:` is left, which leads to no other machine.
        return
    if text.startswith(("/", ".")):
        # A path on a host that is named elsewhere; but a socket is one by itself.
        if text.endswith((".sock", ".socket")):
            yield f"unix:{text}"
        return
    if _DROPPED.search(text):
        yield None
        return
    for host in re.split(r"[ ,;]+", text):
        if host:
            yield _authority(host, "")


def _authority(text: str, scheme: str) -> str | None:
    """Return `host:port` in its canonical form, or None if it can be read in two ways."""
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
    return UNREADABLE + ascii(text[:200])[1:-1][:200]
