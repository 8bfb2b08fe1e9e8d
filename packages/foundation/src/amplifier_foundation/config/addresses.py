"""Where a provider's configuration would send requests, and with them a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

__all__ = ["addresses_in", "providers_in"]

_KEYS = frozenset(
    {"base_url", "api_base", "api_url", "endpoint", "host", "proxy", "proxies", "url"}
)


def addresses_in(providers: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield each address as it is written, and what a person would have to allow for it.

    That is `scheme://host:port`, or the whole text when a variable decides about the host.
    """
    for provider in providers:
        if isinstance(provider, dict):
            config = cast("dict[str, Any]", provider).get("config")
            for text in _texts(config, named=False):
                yield text, _origin(text)


def providers_in(value: Any) -> list[Any]:
    """Return the entries of every list `providers`, at whatever depth."""
    found: list[Any] = []
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            if key == "providers" and isinstance(each, list):
                found += cast("list[Any]", each)
            found += providers_in(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            found += providers_in(each)
    return found


def _texts(value: Any, *, named: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            yield from _texts(each, named=named or key.lower() in _KEYS)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _texts(each, named=named)
    elif isinstance(value, str) and (named or "://" in value):
        yield value


def _origin(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    for end in "/?#\\":
        rest = rest.partition(end)[0]
    host = rest.rpartition("@")[2]
    if not separator or "$" in scheme + rest:
        return text
    return f"{scheme}://{host}".lower()
